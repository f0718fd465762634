// How much memory a recipe's workers will take, before any of it is taken.
#pragma once

#include <vector>

#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// One for each stage: a worker of the first replica, which holds what is evaluated.
std::vector<StageMemory> planned_memory(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
