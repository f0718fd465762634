// What a recipe's data axis will cost, before any of it is paid: bytes on the way and in memory.
#pragma once

#include "config/recipe.h"
#include "pipeline/memory_plan.h"
#include "pipeline/stage.h"

namespace leeway {

// Means over many rounds, of one worker of a stage.
struct StageTraffic {
  double numbers = 0;      // in a round of the main lane
  double round_bytes = 0;  // that a worker sends in one, as contributor and as owner
};

// Means over a run, of all replicas together.
struct AveragingTraffic {
  std::vector<StageTraffic> stages;  // empty: there are no rounds
  double update_bytes = 0;           // of averaging, per update
  double allreduce_bytes = 0;        // what an all-reduce of fp32 gradients would be, per update
  double evaluation_bytes = 0;       // of copies for validation, per update
};
AveragingTraffic averaging_traffic(const Recipe& recipe, int64_t vocabulary);

// Of one worker. Buffers are exact; of rounds that are merged on arrival nobody knows beforehand
// how many will be in flight, and a few are taken.
AveragingMemory averaging_memory(const Recipe& recipe, const StageOptions& stage, StageId id);

// Rounds of a worker between sending and merging, at most; on arrival: as above.
int64_t rounds_in_flight_max(const Recipe& recipe, int64_t interval);

}  // namespace leeway
