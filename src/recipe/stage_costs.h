// What a stage's work takes: arithmetic by the recipe, time by the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "config/recipe.h"
#include "drivers/sim/cost.h"

namespace leeway {

// Of each stage on a machine that makes 1 TFLOP/s in everything.
std::vector<sim::StageCosts> unit_costs(const Recipe& recipe, int64_t vocabulary);

// Of each stage on the workers of run.driver = "sim": sim.flops and sim.speeds.
std::vector<sim::StageCosts> sim_costs(const Recipe& recipe, int64_t vocabulary);

// Seconds of the whole model's microbatch and update on such a machine, in doubles: they may be
// more than the simulator's clock counts.
struct ModelSeconds {
  double microbatch = 0;
  double update = 0;
};
ModelSeconds unit_seconds(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
