// Whether the keys of [averaging] fit together, and fit the run.
#pragma once

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// Needs a resolved recipe; part of check_together().
Status check_averaging(const LoadedRecipe& loaded);

}  // namespace leeway
