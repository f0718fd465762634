// How much memory a recipe's workers will need, known before the run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// One per stage, for a worker of the first replica: it also has the weights to evaluate.
std::vector<StageMemory> planned_memory(const Recipe& recipe, int64_t vocabulary);

// All workers of the run by the device that they are on; the name of the CPU's is empty. `gpus`:
// how many this process sees; 0: unknown, and all are on "cuda".
std::map<std::string, StageMemory> memory_by_device(const Recipe& recipe,
                                                    const std::vector<StageMemory>& plan, int gpus);
// The sum over all devices.
StageMemory memory_of_all(const Recipe& recipe, const std::vector<StageMemory>& plan, int gpus = 0);

}  // namespace leeway
