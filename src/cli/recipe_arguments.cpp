#include "cli/recipe_arguments.h"

#include <CLI/CLI.hpp>

namespace leeway::cli {

CLI::Option& add_recipe_arguments(CLI::App& command, RecipeArguments& arguments) {
  CLI::Option* recipe =
      command.add_option("RECIPE", arguments.recipe, "TOML file that says what the run is");
  command
      .add_option("--set", arguments.sets,
                  "Set one key, over what the recipe says; may be repeated (all keys: leeway "
                  "config keys)")
      ->option_text("TABLE.KEY=VALUE")
      ->allow_extra_args(false);  // one value each: what follows may be RECIPE
  return *recipe;
}

}  // namespace leeway::cli
