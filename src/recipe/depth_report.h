// What virtual time makes of a recipe, in words: whether the simulated pipeline is deep enough for
// its links, and whether the run ends while the clock still counts.
#pragma once

#include <string>

#include "base/result.h"
#include "config/load.h"
#include "pipeline/depth_plan.h"

namespace leeway {

// One sentence, exit status 2, for machines and links so slow that 64 bits of nanoseconds would not
// last; good for other drivers. To be asked before the simulator is.
Status check_simulated_time(const Recipe& recipe, int64_t vocabulary);

// How long a microbatch and a message take in the simulator, with the largest jitter.
PipelineTimes simulated_times(const Recipe& recipe, int64_t vocabulary);

// A line of figures, plus a warning that says what to set if the pipeline is too shallow. Empty for
// other drivers, whose links are not known in advance.
std::string depth_report(const LoadedRecipe& loaded, int64_t vocabulary);

}  // namespace leeway
