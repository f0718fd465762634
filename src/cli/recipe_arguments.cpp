#include "cli/recipe_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "terminal/say.h"

namespace leeway::cli {

CLI::Option& add_recipe_arguments(CLI::App& command, RecipeArguments& arguments) {
  CLI::Option* recipe =
      command.add_option("RECIPE", arguments.recipe, "TOML file that describes the run");
  add_set_option(command, arguments);
  return *recipe;
}

void add_set_option(CLI::App& command, RecipeArguments& arguments) {
  command
      .add_option("--set", arguments.sets,
                  "Override one key of the recipe; repeatable (see `leeway config keys`)")
      ->option_text("TABLE.KEY=VALUE")
      ->allow_extra_args(false);  // one value each: the next word may be RECIPE
}

Result<LoadedRecipe> load_with_notes(const Path& recipe, const std::vector<std::string>& sets) {
  LEEWAY_ASSIGN(LoadedRecipe loaded, load_recipe(recipe, sets));
  for (const std::string& note : loaded.notes) say(fmt::format("note: {}\n", note));
  return loaded;
}

}  // namespace leeway::cli
