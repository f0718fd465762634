// leeway simulate SCENARIO
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <set>

#include "base/names.h"
#include "cli/commands.h"
#include "cli/recipe_data.h"
#include "cli/scenario_arguments.h"
#include "drivers/threads/wall_clock.h"
#include "recipe/memory_check.h"
#include "recipe/vocabulary.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/run_folder.h"
#include "simulate/math_run.h"
#include "simulate/results_json.h"
#include "simulate/results_text.h"
#include "simulate/sweep.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

struct SimulateArguments {
  ScenarioArguments scenario;
  std::string out;
  bool json = false;

  Path folder() const {
    if (!out.empty()) return out;
    return Path("out") / (Path(scenario.file).stem().string() + "-simulated");
  }
};

std::string folder_name(const std::string& method) { return plain_name(method, "method"); }

Result<MethodResult> run_method(const Scenario& scenario, const Cluster& cluster,
                                const MethodRequest& request, const Clock& clock) {
  constexpr double kParts = 1000;
  Progress progress(clock, request.name, static_cast<uint64_t>(kParts));
  MethodRequest watched = request;
  watched.progress = [&](double share) {
    if (stderr_is_terminal()) progress.show(static_cast<uint64_t>(kParts * share), "simulated");
    return !interrupted();
  };
  if (scenario.options.evaluation && request.recipe.recipe.run.evaluate_windows == 0)
    return usage_error(
        "simulate.evaluation needs run.evaluate_windows above 0: without the data, the number of "
        "all windows is unknown");
  return simulate_method(cluster, watched);
}

// Runs the same method again, this time really training.
Status add_math(const SimulateArguments& arguments, const Cluster& cluster,
                const MethodRequest& request, const LoadedRecipe& trained, const Clock& clock,
                MethodResult& result) {
  const Recipe& recipe = trained.recipe;
  if (!result.failure.empty()) return {};
  if (recipe.run.device.starts_with("cuda"))
    return usage_error("simulate.math runs on the CPU only: set run.device to \"cpu\"");
  const Path folder = arguments.folder() / folder_name(request.name);
  LEEWAY_ASSIGN(auto earlier, hold_existing_run(folder, ExistingRun::kFresh));
  LEEWAY_ASSIGN(const Dataset data, open_data(recipe, folder, clock));
  LEEWAY_TRY(check_memory(recipe, data.vocabulary));
  LEEWAY_ASSIGN(const NewRun run, begin_run(folder, std::move(earlier)));
  Progress progress(clock, request.name, static_cast<uint64_t>(recipe.run.updates));
  return train_on(
      cluster, request, trained, data, run.folder,
      [&](int64_t update, double loss) {
        progress.show(static_cast<uint64_t>(update), fmt::format("loss {:.4f}", loss));
        return !interrupted();
      },
      result);
}

// The method's own recipe, or its stand-in: another model on the same mesh.
Result<LoadedRecipe> recipe_to_train(const Scenario& scenario, const Method& method,
                                     const LoadedRecipe& own) {
  const Result<LoadedRecipe> trained = scenario.trained_with(method.set);
  if (!trained.ok())
    return usage_error(
        fmt::format("simulate.stand_in, method \"{}\": {}", method.name, trained.error().message));
  const Recipe &one = own.recipe, &other = trained->recipe;
  if (one.mesh != other.mesh || one.pipeline != other.pipeline || one.averaging != other.averaging)
    return usage_error(fmt::format(
        "simulate.stand_in, method \"{}\": it would change mesh, pipeline or averaging: set "
        "those keys explicitly in the scenario's recipe",
        method.name));
  return *trained;
}

// One method, ready to be run.
struct Prepared {
  std::string name;
  LoadedRecipe recipe;
  Placement placement;
  LoadedRecipe trained;  // used by simulate.math
};

// Prepares all before running any, so a mistake in the last does not waste the work of the others.
Result<std::vector<Prepared>> prepare_methods(const Scenario& scenario, const Cluster& cluster) {
  LEEWAY_ASSIGN(const std::vector<Method> methods, methods_to_run(scenario));
  std::vector<Prepared> all;
  std::set<std::string> folders;
  for (const Method& method : methods) {
    if (scenario.options.math && !folders.insert(folder_name(method.name)).second)
      return usage_error(
          fmt::format("method \"{}\" would share its folder {} with another: rename it",
                      method.name, folder_name(method.name)));
    const Result<LoadedRecipe> recipe = scenario.recipe_with(method.set);
    if (!recipe.ok())
      return usage_error(fmt::format("method \"{}\": {}", method.name, recipe.error().message));
    const Result<Placement> placement = place(cluster, machine_order(cluster), recipe->recipe.mesh,
                                              scenario.options.placement == "columns");
    if (!placement.ok())
      return usage_error(fmt::format("method \"{}\": {}", method.name, placement.error().message));
    all.push_back({.name = method.name, .recipe = *recipe, .placement = *placement, .trained = {}});
    if (!scenario.options.math) continue;
    LEEWAY_ASSIGN(all.back().trained, recipe_to_train(scenario, method, *recipe));
  }
  return all;
}

Result<std::vector<MethodResult>> run_methods(const SimulateArguments& arguments,
                                              const Scenario& scenario, const Cluster& cluster) {
  const threads::WallClock clock;
  LEEWAY_ASSIGN(const std::vector<Prepared> methods, prepare_methods(scenario, cluster));
  LEEWAY_ASSIGN(const int64_t vocabulary,
                scenario_vocabulary(scenario, methods.front().recipe.recipe));
  std::vector<MethodResult> results;
  for (const Prepared& method : methods) {
    const MethodRequest request = {.name = method.name,
                                   .recipe = method.recipe,
                                   .vocabulary = vocabulary,
                                   .updates = scenario.options.updates,
                                   .evaluation = scenario.options.evaluation,
                                   .placement = method.placement};
    LEEWAY_ASSIGN(MethodResult result, run_method(scenario, cluster, request, clock));
    if (scenario.options.math)
      LEEWAY_TRY(add_math(arguments, cluster, request, method.trained, clock, result));
    results.push_back(std::move(result));
  }
  return results;
}

Status run(const SimulateArguments& arguments) {
  watch_for_interrupt();
  LEEWAY_TRY(refuse_sets(arguments.scenario, {"simulate.tokens_per_update="},
                         "only `leeway plan` uses this key"));
  LEEWAY_ASSIGN(const Scenario scenario, load_machines(arguments.scenario, threads::WallClock()));
  if (!scenario.options.math)
    LEEWAY_TRY(refuse_sets(arguments.scenario, {"simulate.target_loss=", "simulate.stand_in="},
                           "nothing is trained without simulate.math=true"));
  if (scenario.options.math) set_up_compute(1, Repeatable::kPrefer);
  const Cluster cluster = cluster_of(scenario);
  LEEWAY_ASSIGN(const std::vector<MethodResult> results, run_methods(arguments, scenario, cluster));
  const std::string json = results_json(scenario, cluster, results);
  if (!arguments.out.empty() || scenario.options.math) {
    LEEWAY_TRY(make_folder(arguments.folder()));
    LEEWAY_TRY(write_atomically(arguments.folder() / "results.json", json));
  }
  const bool sweeps = !scenario.options.replicas.empty();
  fmt::print("{}", arguments.json ? json
                   : sweeps       ? sweep_report(scenario, results)
                                  : simulation_report(scenario, cluster, results));
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Predict how a mesh performs on machines and links you describe");
  command->footer(
      "Examples:\n"
      "  leeway simulate recipes/scenarios/eight-homes.toml\n"
      "  leeway simulate recipes/scenarios/two-sites.toml --set mesh.stages=8 --json\n"
      "  leeway simulate recipes/scenarios/fleet.toml --set 'simulate.replicas=[2, 64]'\n"
      "  leeway simulate recipes/scenarios/one-machine.toml --set simulate.math=true");
  const auto arguments = std::make_shared<SimulateArguments>();
  add_scenario_arguments(*command, arguments->scenario);
  command->add_option("--out", arguments->out,
                      "Write results.json, and runs of simulate.math, to this folder [with "
                      "simulate.math out/SCENARIO-simulated; otherwise nothing is written]");
  command->add_flag("--json", arguments->json, "Print results.json to standard output");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
