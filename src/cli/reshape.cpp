// leeway reshape CHECKPOINT --stages P --replicas R --out RUN
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/human.h"
#include "base/names.h"
#include "cli/commands.h"
#include "cli/recipe_arguments.h"
#include "cli/validators.h"
#include "run/reshaped_run.h"
#include "terminal/say.h"

namespace leeway::cli {
namespace {

struct ReshapeArguments {
  std::string from;
  int64_t stages = 0;
  int64_t replicas = 0;
  RecipeArguments recipe;
  std::string out;
};

Status run(const ReshapeArguments& arguments) {
  LEEWAY_ASSIGN(const ReshapedRun reshaped, reshape_run({.from = arguments.from,
                                                         .stages = arguments.stages,
                                                         .replicas = arguments.replicas,
                                                         .sets = arguments.recipe.sets,
                                                         .out = arguments.out}));
  for (const std::string& warning : reshaped.warnings) say(fmt::format("warning: {}\n", warning));
  for (const std::string& note : reshaped.notes) say(fmt::format("note: {}\n", note));
  for (const std::string& change : reshaped.changes) say(change + "\n");
  fmt::print("wrote {}: {} x {} at update {}; next: leeway resume {}\n", arguments.out,
             counted(arguments.stages, "stage"), counted(arguments.replicas, "replica"),
             reshaped.update, shell_word(arguments.out));
  return {};
}

}  // namespace

void add_reshape(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("reshape", "Cut a checkpoint for another number of stages and replicas");
  command->footer(
      "Example:\n"
      "  leeway reshape out/first --stages 2 --replicas 3 --out out/wide\n"
      "  leeway resume out/wide\n"
      "Weights, moments and what averaging keeps are cut anew into a new run folder, and the data\n"
      "goes on where the run was. Replicas with the lowest numbers stay; further ones begin as\n"
      "copies. The source stays as it is. Another number of replicas alone needs no new folder:\n"
      "  leeway resume out/first --set mesh.replicas=3");
  const auto arguments = std::make_shared<ReshapeArguments>();
  command
      ->add_option("CHECKPOINT", arguments->from,
                   "Folder of a checkpoint, or a run folder: its newest intact checkpoint")
      ->required()
      ->option_text("(required)");
  command->add_option("--stages", arguments->stages, "Stages of the new mesh")
      ->required()
      ->check(at_least(1))
      ->option_text("P (required)");
  command->add_option("--replicas", arguments->replicas, "Replicas of the new mesh")
      ->required()
      ->check(at_least(1))
      ->option_text("R (required)");
  add_set_option(*command, arguments->recipe);
  command->add_option("--out", arguments->out, "Run folder to write; must not exist")
      ->required()
      ->option_text("RUN (required)");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
