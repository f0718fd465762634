// Who does the work of a session: workers in this process (local_crew.h), or in others (src/fleet).
// Everything around them is the same: the folder, the recorder, checkpoints, the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "recipe/make_plan.h"
#include "worker/outbox.h"
#include "worker/shard_store.h"

namespace leeway {

struct SessionStart {
  const Recipe& recipe;
  MeshData data;
  const RunPlan& plan;                // outlives the session
  const RunCounters& before;          // of the run, when the session begins or began
  const ModelState* state = nullptr;  // that workers begin with; null: as they are made
  bool evaluates_first = false;       // those weights have not been evaluated yet
  bool goes_on = false;               // it has begun under another coordinator: Crew::running()
};

// A session whose coordinator was lost, and whose workers go on.
struct RunningSession {
  int64_t number = 0;  // in the log of the run, counted from 1
  int64_t shift = 0;   // MeshData::shift
  double seconds = 0;  // run time, now
  RunCounters before;
  // Of RunPlan:
  int64_t first_update = 0;
  int64_t last_update = 0;
  uint64_t run = 0;
  uint64_t recipe = 0;
  std::vector<ReplicaStart> starts = {};
};

class Crew {
 public:
  virtual ~Crew() = default;
  // Whether somebody fills places that become empty (RunPlan::refills).
  virtual bool refills() const { return false; }
  // A session of this run that goes on, if there is one; waits until it is clear who is in it.
  virtual Result<std::optional<RunningSession>> running() {
    return std::optional<RunningSession>();
  }
  // What can fail before anything of the session is written.
  virtual Status prepare(const SessionStart& start) = 0;
  // Until the session is over, with a coordinator that has this recorder. Rethrows exceptions from
  // a worker's compute.
  virtual Status run(Recorder& recorder, ShardStore& shards) = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace leeway
