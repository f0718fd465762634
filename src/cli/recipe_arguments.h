// The arguments of every sub-command that reads a recipe: RECIPE and --set.
#pragma once

#include <string>
#include <vector>

#include "config/load.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace leeway::cli {

struct RecipeArguments {
  std::string recipe;
  std::vector<std::string> sets;
};

// Returns RECIPE, so the caller can make it required; `arguments` must outlive the parsing.
CLI::Option& add_recipe_arguments(CLI::App& command, RecipeArguments& arguments);
void add_set_option(CLI::App& command, RecipeArguments& arguments);  // --set alone

// load_recipe(), and prints its notes to standard error.
Result<LoadedRecipe> load_with_notes(const Path& recipe, const std::vector<std::string>& sets);

}  // namespace leeway::cli
