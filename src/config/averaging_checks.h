// Whether the keys of [averaging] fit each other, and the run.
#pragma once

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// On a resolved recipe; part of check_together().
Status check_averaging(const LoadedRecipe& loaded);

}  // namespace leeway
