#include "cli/scenario_arguments.h"

#include <CLI/CLI.hpp>

#include "cli/calibrate.h"
#include "cli/recipe_vocabulary.h"

namespace leeway::cli {

void add_scenario_arguments(CLI::App& command, ScenarioArguments& arguments) {
  command
      .add_option("SCENARIO", arguments.file,
                  "TOML file with machines, links and a recipe (docs/simulate.md)")
      ->required()
      ->option_text("(required)");
  command
      .add_option("--set", arguments.sets,
                  "Set one key of the recipe or of [simulate], over what the file says; may be "
                  "repeated")
      ->option_text("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--calibrate", arguments.calibrate,
                   "Measure what one worker achieves here, by a short run, and take all machines "
                   "for this one");
}

Result<Scenario> load_machines(const ScenarioArguments& arguments, const Clock& clock) {
  LEEWAY_ASSIGN(Scenario scenario, load_scenario(arguments.file, arguments.sets));
  if (arguments.calibrate) LEEWAY_TRY(calibrate(clock, scenario));
  return scenario;
}

Result<int64_t> scenario_vocabulary(const Scenario& scenario, const Recipe& recipe) {
  if (scenario.options.vocabulary > 0) return scenario.options.vocabulary;
  return recipe_vocabulary(recipe.data);
}

}  // namespace leeway::cli
