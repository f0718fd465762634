// Checks that a run fits into the memory of its devices, before anything is allocated.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "config/recipe.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// What there is, in bytes.
struct DeviceMemory {
  double machine = 0;
  std::vector<double> gpus = {};  // that this process sees; empty: unknown, and not checked
};

// A usage error (exit status 2) if the workers of a device together need more memory than it has.
Status check_memory(const Recipe& recipe, int64_t vocabulary, const std::vector<double>& gpus = {});
// The same for a plan and a machine.
Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan,
                    const DeviceMemory& there);

// What a run that needs too much could do about it.
std::string memory_advice(const Recipe& recipe);

}  // namespace leeway
