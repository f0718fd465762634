// Runs a recorded run again, in the recorded order: each worker must do what it did then.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "events/log_level.h"
#include "events/work.h"
#include "worker/outbox.h"
#include "worker/workers.h"

namespace leeway::sim {

// The workers are a complete mesh, replica after replica, stage after stage, with a plan that
// neither evaluates nor saves: records of that are skipped. Every other record must be what its
// worker would do next; messages arrive at once. The error names the first record that is not, or
// says that the records end before the run does. Records must be in a causal order; a driver that
// reports a piece of work before sending its messages writes them that way.
//
struct ReplayOptions {
  // Which pieces the log lacks. They are done when a record needs them and not before: a worker
  // must not run past a merge that is still to come.
  LogCoverage coverage = {};
  std::function<bool()> stop_wanted = {};  // asked after every piece: ends the replay
  // The replicas that made the run to its end; none: all.
  std::optional<ReplicaSet> left = {};
};

Status replay(const Workers& workers, const std::vector<WorkRecord>& recorded, Recorder& recorder,
              const ReplayOptions& options = {});

}  // namespace leeway::sim
