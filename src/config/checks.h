// What single keys cannot know: whether the values fit each other.
#pragma once

#include <string_view>

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// Keys without a sensible default must have been given.
Status check_required(const Recipe& recipe, std::string_view source_name);

// On a resolved recipe. The sentence names both keys, their values and where these came from.
Status check_together(const LoadedRecipe& loaded);

}  // namespace leeway
