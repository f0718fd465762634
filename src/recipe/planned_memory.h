// How much memory a recipe's workers will need, known before the run.
#pragma once

#include <vector>

#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// One per stage, for a worker of the first replica: it also has the weights to evaluate.
std::vector<StageMemory> planned_memory(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
