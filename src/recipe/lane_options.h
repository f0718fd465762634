// Translates a recipe's data axis into plans and options for its rounds.
#pragma once

#include <string>
#include <vector>

#include "averaging/stability.h"
#include "compute/averaging_compute.h"
#include "config/recipe.h"
#include "worker/lane.h"

namespace leeway {

// In the order of Lane; empty for one replica.
std::vector<LanePlan> lane_plans(const Recipe& recipe, int64_t vocabulary);
// Of the flat buffers that this recipe's averaging keeps.
std::vector<std::string> averaging_buffer_names(const Recipe& recipe, int64_t vocabulary);
// The lane of copies for validation, which every run has.
LanePlan evaluation_lane(const Recipe& recipe, int64_t vocabulary);

// Updates between two rounds: the recipe's interval, raised by its guard where the lag is fixed.
int64_t round_interval(const Recipe& recipe);

// Backwards of an update before its merge, 0: at its end; Boundaries::kAnywhere: on arrival, and
// the chunks of a round about together.
int64_t merge_position(const Recipe& recipe);

// For the stage that `stage` describes.
std::vector<LaneOptions> lane_options(const Recipe& recipe, const StageOptions& stage, StageId id);

int64_t stage_parameters(const StageOptions& stage);

// For the main lane, at this lag.
StabilityOptions stability_options(const Recipe& recipe, double lag);

// What all replicas together would send over the run if they averaged fp32 gradients at every
// update with a ring all-reduce: the baseline for averaging.
double allreduce_bytes(int64_t parameters, int64_t replicas, int64_t updates);

}  // namespace leeway
