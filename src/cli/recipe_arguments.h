// The arguments of every sub-command that reads a recipe: RECIPE and --set.
#pragma once

#include <string>
#include <vector>

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

}  // namespace leeway::cli
