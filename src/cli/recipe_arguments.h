// What every sub-command that reads a recipe takes: RECIPE and --set.
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

// Registers both with help and returns RECIPE, which the caller may require; `arguments` must
// outlive the parsing.
CLI::Option& add_recipe_arguments(CLI::App& command, RecipeArguments& arguments);

}  // namespace leeway::cli
