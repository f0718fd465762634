// How long a stage's work takes: the recipe gives the arithmetic, the machine its speed.
#pragma once

#include <cstdint>
#include <vector>

#include "config/recipe.h"
#include "drivers/sim/cost.h"

namespace leeway {

// Costs of each stage on a machine that does 1 TFLOP/s in everything.
std::vector<sim::StageCosts> unit_costs(const Recipe& recipe, int64_t vocabulary);

// Costs of each stage on the workers of run.driver = "sim": sim.flops and sim.speeds. Of each
// worker, in mesh order, if they have speeds of their own.
std::vector<sim::StageCosts> sim_costs(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
