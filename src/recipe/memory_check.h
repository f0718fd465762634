// Checks that a run fits into the machine's memory, before anything is allocated.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// A usage error (exit status 2) if all workers together need more memory than there is. GPU memory
// is not checked: LibTorch has a good error message for that.
Status check_memory(const Recipe& recipe, int64_t vocabulary);
// The same for a plan and a machine with `available` bytes.
Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan, double available);

}  // namespace leeway
