// A recipe as text: for people, for the run folder, for the documentation.
#pragma once

#include <string>

#include "config/load.h"

namespace leeway {

// A complete TOML file with the origin of every value in a comment. parse_recipe() reads it back as
// the same recipe.
std::string print_recipe(const LoadedRecipe& loaded);

// The whole of docs/configuration.md.
std::string configuration_markdown();

}  // namespace leeway
