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
DeviceMemory memory_here(const std::vector<double>& gpus);

// A usage error (exit status 2) if the workers of a device together are planned to need much more
// memory than it has. A plan is not exact: one that is less than kMemoryDoubt too large is a note,
// because nobody could overrule a refusal.
inline constexpr double kMemoryDoubt = 1.25;
Status check_memory(const Recipe& recipe, int64_t vocabulary, const std::vector<double>& gpus = {});
// The same for a plan and a machine.
Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan,
                    const DeviceMemory& there);

// What to tell about a run that may just not fit.
std::vector<std::string> memory_notes(const Recipe& recipe, const std::vector<StageMemory>& plan,
                                      const DeviceMemory& there);

// What a run that needs too much could do about it: a new one, or one that goes on.
std::string memory_advice(const Recipe& recipe);
std::string memory_advice_on_resume(const Recipe& recipe);

}  // namespace leeway
