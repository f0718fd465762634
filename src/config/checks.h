// Checks across keys: whether the values fit together.
#pragma once

#include <string_view>

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// Keys without a sensible default must have been given.
Status check_required(const Recipe& recipe, std::string_view source_name);

// One of sim.speeds for each stage or each worker, or none.
bool speeds_fit(const Recipe& recipe);

// Needs a resolved recipe. The error names both keys, their values and where these came from.
Status check_together(const LoadedRecipe& loaded);

}  // namespace leeway
