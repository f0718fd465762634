// What virtual time makes of a recipe, in words: whether the simulated pipeline is deep enough for
// its links.
#pragma once

#include <string>

#include "config/load.h"
#include "pipeline/depth_plan.h"

namespace leeway {

// How long a microbatch and a message take in the simulator, with the largest jitter.
PipelineTimes simulated_times(const Recipe& recipe, int64_t vocabulary);

// A line of figures, plus a warning that says what to set if the pipeline is too shallow. Empty for
// other drivers, whose links are not known in advance.
std::string depth_report(const LoadedRecipe& loaded, int64_t vocabulary);

}  // namespace leeway
