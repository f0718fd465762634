#include "cli/scenario_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/recipe_data.h"
#include "recipe/vocabulary.h"
#include "simulate/calibrate.h"

namespace leeway::cli {

void add_scenario_arguments(CLI::App& command, ScenarioArguments& arguments) {
  command
      .add_option("SCENARIO", arguments.file,
                  "TOML file with machines, links and a recipe (docs/simulate.md)")
      ->required()
      ->option_text("(required)");
  command
      .add_option("--set", arguments.sets,
                  "Override one key of the recipe or of [simulate]; repeatable")
      ->option_text("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--calibrate", arguments.calibrate,
                   "Measure one worker's speed on this machine in a short run, and use it for all "
                   "machines");
}

Status refuse_sets(const ScenarioArguments& arguments, const std::vector<std::string_view>& keys,
                   std::string_view why) {
  for (const std::string& set : arguments.sets) {
    const auto begins = [&](std::string_view key) { return set.starts_with(key); };
    if (std::ranges::any_of(keys, begins))
      return usage_error(fmt::format("--set {}: {}", shown(set, kShortBytes), why));
  }
  return {};
}

Result<Scenario> load_machines(const ScenarioArguments& arguments, const Clock& clock) {
  LEEWAY_TRY(refuse_sets(arguments, {"sim.", "network."},
                         "[sim] and [network] are for run.driver = \"sim\" and \"zmq\"; describe a "
                         "scenario's machines and "
                         "links in [[machine]], [[site]] and [[link]]"));
  LEEWAY_ASSIGN(Scenario scenario, load_scenario(arguments.file, arguments.sets));
  if (arguments.calibrate)
    LEEWAY_TRY(calibrate(
        clock,
        [&](const Recipe& recipe, const Path& run_folder) {
          return open_data(recipe, run_folder, clock);
        },
        scenario));
  return scenario;
}

Result<int64_t> scenario_vocabulary(const Scenario& scenario, const Recipe& recipe) {
  if (scenario.options.vocabulary > 0) return scenario.options.vocabulary;
  return recipe_vocabulary(recipe.data);
}

}  // namespace leeway::cli
