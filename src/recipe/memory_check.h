// Whether a run fits into the machine, asked before anything is allocated.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// One sentence, exit status 2, where all workers together need more than there is. A GPU's memory
// is not looked at: LibTorch has a good sentence of its own for that.
Status check_memory(const Recipe& recipe, int64_t vocabulary);
// The same for a plan and a machine with `available` bytes.
Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan, double available);

}  // namespace leeway
