#include "cli/calibrate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/process.h"
#include "cli/device.h"
#include "cli/recipe_data.h"
#include "cli/run_folder.h"
#include "config/print.h"
#include "drivers/threads/threads.h"
#include "simulate/cluster.h"
#include "worker/training_run.h"

namespace leeway::cli {
namespace {

constexpr int64_t kUpdates = 24;
constexpr int64_t kWarmup = 4;  // caches, and memory that is taken for the first time

// How many workers of a machine compute at once.
int64_t at_once(const Scenario& scenario) {
  int64_t most = 1;
  for (const MachineGroup& group : scenario.machines)
    most = std::max(most, std::min(group.workers, group.cores));
  return most;
}

// The whole model on a worker of its own for each core, as they share caches and memory, with
// microbatches of the recipe's size.
Result<LoadedRecipe> alone(const Scenario& scenario) {
  LEEWAY_ASSIGN(const LoadedRecipe base, scenario.recipe_with({}));
  Scenario own = scenario;
  const PipelineOptions& pipeline = base.recipe.pipeline;
  for (const std::string& set :
       {std::string("mesh.stages=1"), fmt::format("mesh.replicas={}", at_once(scenario)),
        std::string("averaging.method=none"), std::string("run.tokens=0"),
        fmt::format("run.updates={}", kUpdates), std::string("run.evaluate_every=0"),
        std::string("run.evaluate_windows=1"), std::string("run.checkpoint_every=0"),
        std::string("run.device=cpu"), std::string("optimizer.warmup=0"),
        std::string("sim.speeds=[]"), std::string("pipeline.lookahead=auto"),
        std::string("pipeline.refresh=auto"),
        fmt::format("pipeline.update_every={}", pipeline.update_every)})
    own.sets.push_back(set);
  return own.recipe_with({});
}

}  // namespace

Result<double> measure_tflops(const Scenario& scenario, const Path& folder, const Clock& clock) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, alone(scenario));
  const Recipe& recipe = loaded.recipe;
  LEEWAY_ASSIGN(const bool earlier, check_run_folder(folder, ExistingRun::kFresh));
  if (earlier) LEEWAY_TRY(move_run_aside(folder));
  set_up_compute(1, Repeatable::kPrefer);
  keep_freed_memory();
  LEEWAY_ASSIGN(const Dataset data, open_data(recipe, folder, clock));
  threads::Threads driver(1);
  std::vector<Nanos> done;
  TrainingObserver observer;
  observer.updated = [&](const UpdateReport&, double) { done.push_back(driver.clock().now()); };
  LEEWAY_ASSIGN(const TrainingSummary summary,
                train({.recipe = recipe, .recipe_text = print_recipe(loaded), .folder = folder},
                      data, driver, observer));
  if (!summary.finished || std::ssize(done) != kUpdates)
    return Error{"the measurement was stopped"};
  const Nanos took = done.back() - done[kWarmup - 1];
  const sim::StageCosts unit = unit_costs(recipe, data.vocabulary).front();
  const double microbatches = static_cast<double>(recipe.pipeline.update_every);
  const double update =
      microbatches * (unit.forward + unit.backward).seconds() + unit.update.seconds();
  return update * static_cast<double>(kUpdates - kWarmup) / took.seconds();
}

}  // namespace leeway::cli
