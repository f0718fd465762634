// Whether this machine can run as many threads as a recipe asks for.
#pragma once

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// A usage error if a worker asks for many more threads than there are cores, or all workers
// together for more than a system usually gives.
Status check_threads(const LoadedRecipe& loaded, int64_t cores);

}  // namespace leeway
