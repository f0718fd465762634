// leeway config check | print | keys
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/recipe_arguments.h"
#include "config/load.h"
#include "config/print.h"
#include "recipe/mesh_report.h"
#include "recipe/vocabulary.h"

namespace leeway::cli {
namespace {

Status check(const RecipeArguments& arguments) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(arguments.recipe, arguments.sets));
  LEEWAY_ASSIGN(const std::string report,
                pipeline_report(loaded, recipe_vocabulary(loaded.recipe.data)));
  fmt::print("{}: ok\n{}{}", arguments.recipe, recipe_summary(loaded.recipe), report);
  return {};
}

Status print(const RecipeArguments& arguments) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(arguments.recipe, arguments.sets));
  fmt::print("{}", print_recipe(loaded));
  return {};
}

using RecipeCommand = Status (*)(const RecipeArguments&);

struct Words {
  const char* name;
  const char* help;
  const char* footer;
};

void add_recipe_command(CLI::App& config, Action& chosen, const Words& words, RecipeCommand run) {
  CLI::App* command = config.add_subcommand(words.name, words.help);
  command->footer(words.footer);
  // Shared with the callback: CLI11 fills it in after this function has returned.
  const auto arguments = std::make_shared<RecipeArguments>();
  add_recipe_arguments(*command, *arguments).required()->option_text("(required)");
  command->callback([arguments, &chosen, run] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace

void add_config(CLI::App& app, Action& chosen) {
  CLI::App* config = app.add_subcommand("config", "Check or print a recipe, or list all keys");
  config->require_subcommand(1);
  config->footer("Example:\n  leeway config check recipes/quickstart.toml");

  add_recipe_command(
      *config, chosen,
      {.name = "check",
       .help = "Check a recipe and show what it needs, or what is wrong with it",
       .footer = "Example:\n"
                 "  leeway config check recipes/quickstart.toml --set model.width=96"},
      check);
  add_recipe_command(*config, chosen,
                     {.name = "print",
                      .help = "Print the complete recipe, noting where each value came from",
                      .footer = "Example:\n"
                                "  leeway config print recipes/quickstart.toml --set run.seed=2"},
                     print);

  CLI::App* keys = config->add_subcommand("keys", "List all keys as Markdown");
  keys->footer("Example:\n  leeway config keys > docs/configuration.md");
  keys->callback([&chosen] {
    chosen = [] {
      fmt::print("{}", configuration_markdown());
      return Status();
    };
  });
}

}  // namespace leeway::cli
