// leeway plan SCENARIO
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "base/human.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/scenario_arguments.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "recipe/memory_check.h"
#include "recipe/mesh_report.h"
#include "recipe/stage_options.h"
#include "recipe/vocabulary.h"
#include "simulate/mesh_plan.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

struct PlanArguments {
  ScenarioArguments scenario;
  std::string out;
};

// Whether there are rounds for the plan to choose.
bool averages(const Recipe& recipe) {
  return recipe.mesh.replicas > 1 && recipe.averaging.method == AveragingMethod::kSparse;
}

std::string candidates_table(const MeshPlan& plan) {
  std::vector<Row> rows;
  for (const Candidate& candidate : plan.candidates) {
    const Recipe& recipe = candidate.recipe.recipe;
    rows.push_back(
        {rows.empty() ? "*" : "", fmt::format("{}", recipe.mesh.stages),
         fmt::format("{}", recipe.mesh.replicas), fmt::format("{}", microbatch_sequences(recipe)),
         fmt::format("{}", recipe.pipeline.update_every),
         fmt::format("{}", recipe.pipeline.extra_per_hop),
         averages(recipe) ? fmt::format("{:g}", recipe.averaging.fraction) : "-",
         averages(recipe) ? fmt::format("{}", recipe.averaging.interval) : "-",
         human_count(static_cast<uint64_t>(tokens_per_update(recipe))),
         human_count(static_cast<uint64_t>(candidate.predicted)),
         human_count(static_cast<uint64_t>(candidate.simulated)), std::string(candidate.limit)});
  }
  return stages_text(
      {"", "stages", "replicas", "microbatch", "per update", "extra per hop", "fraction",
       "interval", "tokens/update", "by arithmetic", "tokens/s", "limited by"},
      rows);
}

std::string why(const MeshPlan& plan, const Cluster& cluster) {
  const Candidate& chosen = plan.candidates.front();
  const Recipe& recipe = chosen.recipe.recipe;
  const std::set<size_t> used(chosen.placement.begin(), chosen.placement.end());
  std::string text =
      fmt::format("chosen: {} of {} machines, busy {:.0f} % of the time; a worker needs at most {}",
                  used.size(), cluster.machines.size(), 100 * plan.result.busy,
                  shown_bytes(plan.result.worker_memory()));
  if (recipe.pipeline.recompute) text += ", with recomputation";
  text += "\n";
  if (used.size() < cluster.machines.size())
    text += "  the others are left out: too little memory, or links that would slow all down\n";
  if (recipe.mesh.stages > 1) {
    text += fmt::format(
        "  depth: {} microbatches in flight hide a pipeline's links; no gradient is more than one "
        "update late\n",
        recipe.pipeline.update_every);
  }
  if (averages(recipe) && !plan.result.lags.empty()) {
    text += fmt::format(
        "  averaging: {:g} of the weights every {} update{}, merged {:.1f} updates later on "
        "average\n",
        recipe.averaging.fraction, recipe.averaging.interval,
        recipe.averaging.interval == 1 ? "" : "s", mean_value(plan.result.lags));
  }
  if (cluster.eventful_s > 0)
    text +=
        "  the plan ignores stalls, joins, departures and churn; `leeway simulate` shows their "
        "effect\n";
  for (const std::string& note : plan.result.notes) text += fmt::format("  {}\n", note);
  return text;
}

// The keys that the plan chose, as TOML.
std::string decisions(const Recipe& recipe) {
  std::string text = fmt::format(
      "[mesh]\nstages = {}\nreplicas = {}\n[data]\nbatch = {}\n[pipeline]\nschedule = "
      "\"async\"\nextra_per_hop = {}\n"
      "update_every = {}\nrecompute = {}\n",
      recipe.mesh.stages, recipe.mesh.replicas, recipe.data.batch, recipe.pipeline.extra_per_hop,
      recipe.pipeline.update_every, recipe.pipeline.recompute);
  if (averages(recipe))
    text += fmt::format("[averaging]\nfraction = {:g}\ninterval = {}\n", recipe.averaging.fraction,
                        recipe.averaging.interval);
  return text;
}

// --set must not fix what the plan is to choose.
Status check_sets(const ScenarioArguments& arguments) {
  LEEWAY_TRY(
      refuse_sets(arguments,
                  {"mesh.stages=", "mesh.replicas=", "data.batch=", "pipeline.schedule=",
                   "pipeline.update_every=", "pipeline.extra_per_hop=", "averaging.interval="},
                  "`leeway plan` chooses this key; use `leeway simulate` to try a mesh of your "
                  "own"));
  return refuse_sets(arguments,
                     {"simulate.math=", "simulate.target_loss=", "simulate.stand_in=",
                      "simulate.evaluation=", "simulate.placement=", "simulate.replicas="},
                     "only `leeway simulate` uses this key");
}

Status run(const PlanArguments& arguments) {
  watch_for_interrupt();
  LEEWAY_TRY(check_sets(arguments.scenario));
  if (!arguments.out.empty()) LEEWAY_TRY(check_output_file("--out", arguments.out, kPlannedRecipe));
  const threads::WallClock clock;
  LEEWAY_ASSIGN(const Scenario scenario, load_machines(arguments.scenario, clock));
  const Cluster cluster = cluster_of(scenario);
  LEEWAY_ASSIGN(const LoadedRecipe base,
                scenario.recipe_with({"mesh.stages=1", "mesh.replicas=1", "data.batch=1",
                                      "pipeline.update_every=auto", "sim.speeds=[]"}));
  LEEWAY_ASSIGN(const int64_t vocabulary, scenario_vocabulary(scenario, base.recipe));
  const Result<int64_t> of_data = recipe_vocabulary(base.recipe.data);
  Progress progress(clock, "planning", 0);
  LEEWAY_ASSIGN(const MeshPlan plan,
                plan_for({.scenario = scenario,
                          .cluster = cluster,
                          .vocabulary = vocabulary,
                          // What `config check` would say about the recipe.
                          .accepts = [&](const LoadedRecipe& loaded) -> Status {
                            LEEWAY_ASSIGN(const LoadedRecipe again,
                                          parse_recipe(print_recipe(loaded), "plan.toml", {}));
                            const auto report = pipeline_report(again, of_data);
                            return report.ok() ? Status() : Status(report.error());
                          },
                          .progress =
                              [&](size_t done, size_t total) {
                                if (stderr_is_terminal())
                                  progress.show(done,
                                                fmt::format("{} of {} simulated", done, total));
                                return !interrupted();
                              }}));
  const LoadedRecipe& chosen = plan.candidates.front().recipe;
  fmt::print(
      "{}: {}; {} meshes considered, {} of them too large for memory or "
      "simulate.tokens_per_update\n\n{}\n{}\n{}",
      arguments.scenario.file, counted(cluster.machines.size(), "machine"), plan.tried,
      plan.refused, candidates_table(plan), why(plan, cluster), decisions(chosen.recipe));
  if (arguments.out.empty()) return {};
  LEEWAY_TRY(
      write_atomically(arguments.out, std::string(kPlannedRecipe.opening) + print_recipe(chosen)));
  fmt::print("wrote {}\n", arguments.out);
  return {};
}

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "plan", "Propose stages, replicas, depth and averaging for machines you describe");
  command->footer(
      "Examples:\n"
      "  leeway plan recipes/scenarios/two-sites.toml\n"
      "  leeway plan recipes/scenarios/two-sites.toml --out planned.toml\n"
      "  leeway plan recipes/scenarios/eight-homes.toml --set simulate.tokens_per_update=262144");
  const auto arguments = std::make_shared<PlanArguments>();
  add_scenario_arguments(*command, arguments->scenario);
  command->add_option("--out", arguments->out, "Write the full recipe to this .toml file");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
