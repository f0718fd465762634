// What a recipe's data axis will cost, known before the run: bytes sent and bytes in memory.
#pragma once

#include "config/recipe.h"
#include "pipeline/memory_plan.h"
#include "pipeline/stage.h"

namespace leeway {

// One worker of a stage, averaged over many rounds.
struct StageTraffic {
  double numbers = 0;      // values in a round of the main lane
  double round_bytes = 0;  // sent per round, as contributor and as owner
};

// All replicas together, averaged over a run.
struct AveragingTraffic {
  std::vector<StageTraffic> stages;  // empty: there are no rounds
  double update_bytes = 0;           // averaging, per update
  double allreduce_bytes = 0;        // an all-reduce of fp32 gradients instead, per update
  double evaluation_bytes = 0;       // copies for validation, per update
  int64_t evaluate_mean_every = 1;   // evaluations after a multiple of this many updates are of the
                                     // replicas' mean, the last one too
};
AveragingTraffic averaging_traffic(const Recipe& recipe, int64_t vocabulary);

// Memory of one worker. Buffers are exact. How many rounds will be in flight is unknown in advance
// where they merge on arrival; a few are assumed.
AveragingMemory averaging_memory(const Recipe& recipe, const StageOptions& stage, StageId id);

// The most rounds of a worker between sending and merging; on arrival: a guess, as above.
int64_t rounds_in_flight_max(const Recipe& recipe, int64_t interval);

}  // namespace leeway
