// A finished run as its log tells it, for a replay to repeat and compare with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/log_level.h"
#include "events/work.h"
#include "recipe/make_plan.h"

namespace leeway {

struct Recording {
  std::vector<WorkRecord> work;
  LogCoverage coverage;                   // which work the log has
  std::map<int64_t, double> losses;       // by update
  std::map<int64_t, ReplicaSet> made_by;  // updates that not all replicas have made
  // Updates at which a replica's pipeline was empty for a checkpoint, written or not; ascending.
  std::vector<std::vector<int64_t>> flushes;
  std::vector<int64_t> ends;  // updates that each replica made: they may have been stopped apart
  int64_t updates = 0;
  // The replicas that an update's loss is the mean of.
  ReplicaSet members_at(int64_t update) const;
  bool resumed = false;
  std::optional<ReplicaSet> left = {};  // who was there at the end, if that was not all
  std::string data_hash;
  std::string weights_hash;
};

// An error for a run that has not ended, was made by another version, or changed its recipe, and
// for the log of one of several processes.
Result<Recording> read_recording(const Path& run);

// The plan that repeats it: it evaluates and saves nothing, and flushes where the run did, not
// where the recipe says.
Result<RunPlan> plan_to_repeat(const Recording& recording, const Recipe& recipe,
                               const MeshData& mesh);

}  // namespace leeway
