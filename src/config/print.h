// A recipe as text: for people, for the run folder, for the documentation.
#pragma once

#include <string>

#include "config/load.h"

namespace leeway {

// A complete TOML file, every value with its origin in a comment. parse_recipe() makes the same
// recipe of it.
std::string print_recipe(const LoadedRecipe& loaded);

// docs/configuration.md, whole.
std::string configuration_markdown();

}  // namespace leeway
