// A recipe's data axis in the words of those who carry it out: what a round is, and its arithmetic.
#pragma once

#include <vector>

#include "averaging/stability.h"
#include "compute/averaging_compute.h"
#include "config/recipe.h"
#include "worker/lane.h"

namespace leeway {

// In the order of Lane. One replica has none: it has no peers.
std::vector<LanePlan> lane_plans(const Recipe& recipe, int64_t vocabulary);
// The lane of copies for validation, which every run has.
LanePlan evaluation_lane(const Recipe& recipe, int64_t vocabulary);

// Updates between two rounds: the recipe's, or what its guard makes of a lag that is known.
int64_t round_interval(const Recipe& recipe);

// For the stage that these options make.
std::vector<LaneOptions> lane_options(const Recipe& recipe, const StageOptions& stage, StageId id);

int64_t stage_parameters(const StageOptions& stage);

// The main lane's, at this lag.
StabilityOptions stability_options(const Recipe& recipe, double lag);

// What the replicas would send each other if they averaged fp32 gradients at every update: the
// figure that averaging is held against. Of a whole ring, over the run.
double allreduce_bytes(int64_t parameters, int64_t replicas, int64_t updates);

}  // namespace leeway
