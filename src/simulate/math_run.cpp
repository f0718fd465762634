#include "simulate/math_run.h"

#include <fmt/format.h>

#include "config/print.h"
#include "recipe/planned_memory.h"
#include "run/local_crew.h"
#include "run/mesh_model.h"
#include "run/training_run.h"

namespace leeway {
namespace {

// Scales the stand-in's messages, so that `options` keep the pace of the request's recipe.
void keep_pace(const MethodRequest& request, const Recipe& trained, int64_t vocabulary,
               sim::SimulationOptions& options, MethodResult& result) {
  const Recipe& recipe = request.recipe.recipe;
  const auto hop = [](const Recipe& of, int64_t words) {
    return static_cast<double>(make_plan(of, words, 0).activation_bytes);
  };
  const double hops = hop(recipe, request.vocabulary) / hop(trained, vocabulary);
  const std::vector<StageMemory> large = planned_memory(recipe, request.vocabulary);
  const std::vector<StageMemory> small = planned_memory(trained, vocabulary);
  for (size_t s = 0; s < large.size(); ++s) {
    const double rounds =
        static_cast<double>(large[s].parameters) / static_cast<double>(small[s].parameters);
    options.payloads.push_back({.hop = hops, .round = rounds, .evaluation = 0});
    result.stand_in_parameters += small[s].parameters;
  }
  for (sim::StageCosts& costs : options.costs) {
    costs.evaluate = {};
    costs.copies = {};
  }
}

}  // namespace

Status train_on(const Cluster& cluster, const MethodRequest& request, const LoadedRecipe& trained,
                const Dataset& data, const HeldFolder& folder, const MathWatch& watch,
                MethodResult& result) {
  const Recipe& recipe = trained.recipe;
  // Methods are compared by their losses at the same updates, whatever they send.
  LoadedRecipe looked_at = trained;
  if (recipe.run.evaluate_mean_every < 0) looked_at.recipe.run.evaluate_mean_every = 1;
  sim::SimulationOptions options =
      simulation_options(cluster, request.placement, request.recipe.recipe, request.vocabulary);
  if (recipe != request.recipe.recipe) keep_pace(request, recipe, data.vocabulary, options, result);
  LocalCrew crew(std::make_unique<sim::Simulation>(std::move(options)));
  bool go_on = true;
  Recorder::AskRun ask;
  TrainingObserver observer;
  const auto now = [&] { return crew.clock().now().seconds(); };
  observer.updated = [&](const UpdateReport& report, double) {
    result.losses.push_back({now(), report.update, report.loss});
    if (go_on && !watch(report.update, report.loss)) {
      go_on = false;
      ask(Ask::kStop);
    }
  };
  observer.evaluated = [&](const Evaluated& at) {
    if (at.own) return;
    result.evaluations.push_back({now(), at.update, at.loss});
  };
  observer.begun = [&](const Recorder::AskRun& way) { ask = way; };
  const auto summary =
      train({.recipe = looked_at.recipe, .recipe_text = print_recipe(looked_at), .folder = folder},
            data, crew, observer);
  if (!summary.ok()) return summary.error();
  if (!go_on) return stopped_error(fmt::format("stopped at update {}", summary->updates));
  return {};
}

}  // namespace leeway
