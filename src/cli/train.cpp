// leeway train RECIPE, leeway resume RUN
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/train_mpi.h"
#include "cli/train_torchrun.h"
#include "cli/training.h"
#include "config/named.h"
#include "config/words.h"
#include "drivers/threads/wall_clock.h"

namespace leeway::cli {
namespace {

struct Arguments {
  TrainArguments train;
  TorchrunKeys security;
};

Error needs_many(const LoadedRecipe& loaded) {
  return usage_error(
      fmt::format("{} is for many processes: use `leeway launch` on one machine, or `leeway "
                  "coordinate` and `leeway join` on several, or train in one process with "
                  "--set run.driver=threads",
                  named(loaded, "run.driver")));
}

// What the command line says, or else the recipe; if neither can be read, one process will say so.
std::string chosen_driver(TrainArguments& arguments) {
  constexpr std::string_view kSet = "run.driver=";
  if (!arguments.driver.empty()) return arguments.driver;
  const std::vector<std::string>& sets = arguments.recipe.sets;
  for (auto set = sets.rbegin(); set != sets.rend(); ++set) {
    if (set->starts_with(kSet)) return set->substr(kSet.size());
  }
  const Result<Path> file = recipe_file(arguments);
  if (!file.ok()) return "";
  const Result<LoadedRecipe> loaded = load_recipe(*file, arguments.recipe.sets);
  return loaded.ok() ? std::string(word_of(loaded->recipe.run.driver)) : "";
}

// In one process, with threads or in virtual time, or in all those of a job.
Status run(Arguments arguments) {
  const auto lookup = [](const char* name) { return std::getenv(name); };
  const std::string driver = chosen_driver(arguments.train);
  if (driver == "mpi") return train_with_mpi(std::move(arguments.train));
  const std::optional<TorchrunJob> job = torchrun_job(lookup);
  if (driver == "zmq" && job) {
    return train_under_torchrun(std::move(arguments.train), *job, arguments.security);
  }
  LEEWAY_ASSIGN(const LoadedRecipe loaded, begin_training(arguments.train));
  if (loaded.recipe.run.driver == DriverName::kZmq) return needs_many(loaded);
  return train_and_print(arguments.train, loaded, threads::WallClock());
}

void add_keys_arguments(CLI::App& command, TorchrunKeys& security) {
  command.add_option("--key", security.key,
                     "Under torchrun: the key file of all ranks (`leeway keys new`)");
  command.add_flag("--insecure", security.insecure, "Under torchrun: plain text, without keys");
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
  command->footer(std::string("Examples:\n"
                              "  leeway train recipes/quickstart.toml --out out/first\n"
                              "  leeway train recipes/quickstart.toml --set run.updates=50 "
                              "--set model.width=64\n"
                              "  leeway train recipes/quickstart.toml --dashboard 8080\n"
                              "  mpirun -n 8 leeway train recipes/quickstart.toml --driver mpi\n") +
                  kSignalsHelp);
  const auto arguments = std::make_shared<Arguments>();
  add_train_arguments(*command, arguments->train);
  command->add_option("--driver", arguments->train.driver, "Short for --set run.driver=NAME")
      ->option_text("NAME");
  add_keys_arguments(*command, arguments->security);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

void add_resume(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("resume", "Continue a run from its newest checkpoint");
  command->footer(std::string("Examples:\n"
                              "  leeway resume out/first\n"
                              "  leeway resume out/first --set run.updates=2000\n") +
                  kSignalsHelp);
  const auto arguments = std::make_shared<Arguments>();
  TrainArguments& train = arguments->train;
  train.resume = true;
  command->add_option("RUN", train.out, "Run folder")->required()->option_text("(required)");
  add_set_option(*command, train.recipe);
  add_session_arguments(*command, train);
  add_keys_arguments(*command, arguments->security);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
