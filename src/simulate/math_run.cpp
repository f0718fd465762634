#include "simulate/math_run.h"

#include <fmt/format.h>

#include "config/print.h"
#include "worker/training_run.h"

namespace leeway {

Status train_on(const Cluster& cluster, const MethodRequest& request, const Dataset& data,
                const Path& folder, const MathWatch& watch, MethodResult& result) {
  const Recipe& recipe = request.recipe.recipe;
  LEEWAY_TRY(check_clock(cluster, request, recipe.run.updates));
  sim::Simulation simulation(
      simulation_options(cluster, request.placement, recipe, request.vocabulary));
  bool go_on = true;
  TrainingObserver observer;
  const auto now = [&] { return simulation.clock().now().seconds(); };
  observer.updated = [&](const UpdateReport& report, double) {
    result.losses.push_back({now(), report.update, report.loss});
    go_on = go_on && watch(report.update, report.loss);
  };
  observer.evaluated = [&](const Evaluated& at) {
    result.evaluations.push_back({now(), at.update, at.loss});
  };
  observer.stop_wanted = [&] { return !go_on; };
  const auto summary =
      train({.recipe = recipe, .recipe_text = print_recipe(request.recipe), .folder = folder}, data,
            simulation, observer);
  if (!summary.ok()) return summary.error();
  if (!go_on) return Error{fmt::format("stopped at update {}", summary->updates)};
  return {};
}

}  // namespace leeway
