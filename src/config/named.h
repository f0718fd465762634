// Keys as error messages show them: with the value and where it came from.
#pragma once

#include <string>
#include <string_view>

#include "config/load.h"

namespace leeway {

// "model.width = 100 (recipes/quickstart.toml:4)".
std::string named(const LoadedRecipe& loaded, std::string_view path);

// The run's length, by the key that the user gave.
std::string named_length(const LoadedRecipe& loaded);

}  // namespace leeway
