// leeway config check | print | keys
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/recipe_arguments.h"
#include "cli/recipe_data.h"
#include "config/load.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "recipe/mesh_report.h"
#include "run/device.h"

namespace leeway::cli {
namespace {

// What `train` would say before it trains.
Status check(const RecipeArguments& arguments) {
  const threads::WallClock clock;
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_with_notes(arguments.recipe, arguments.sets));
  if (const Status here = check_machine(loaded); !here.ok()) {
    return Error{fmt::format("training on this machine would fail: {}; or check the recipe on the "
                             "machine that it is for",
                             here.error().message),
                 here.error().kind};
  }
  LEEWAY_ASSIGN(const DataLook data, look_at_data(loaded.recipe, clock));
  LoadedRecipe here = loaded;
  here.recipe.run.device = device_here(loaded.recipe.run);
  LEEWAY_ASSIGN(const std::string report, pipeline_report(here, data.vocabulary, gpu_memories()));
  fmt::print("{}: ok\n{}{}", arguments.recipe, recipe_summary(loaded.recipe), report);
  if (!data.thorough) {
    fmt::print("\nnote: the data is large: its files open, but they were not read through\n");
  }
  return {};
}

Status print(const RecipeArguments& arguments) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_with_notes(arguments.recipe, arguments.sets));
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
       .help = "Check everything that `train` would (recipe, device, data, tokenizer, memory) "
               "and show what the run needs, or what is wrong",
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
