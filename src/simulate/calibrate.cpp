#include "simulate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/process.h"
#include "config/print.h"
#include "drivers/threads/threads.h"
#include "events/event_log.h"
#include "recipe/memory_check.h"
#include "recipe/stage_costs.h"
#include "run/device.h"
#include "run/local_crew.h"
#include "run/training_run.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/signal_watch.h"

namespace leeway {
namespace {

constexpr int64_t kUpdates = 24;
constexpr int64_t kWarmup = 4;  // cold caches, first use of memory

// Workers of such a machine that compute at the same time, limited by the cores of this one.
int64_t at_once(const MachineGroup& group) {
  const int64_t wanted = group.cores > 0 ? std::min(group.workers, group.cores) : group.workers;
  return std::min(wanted, core_count());
}

// Removes the run's folder, however the run ends.
class PassingRun {
 public:
  explicit PassingRun(Path folder) : folder_(std::move(folder)) {}
  ~PassingRun() { static_cast<void>(remove_tree(folder_)); }
  PassingRun(const PassingRun&) = delete;
  PassingRun& operator=(const PassingRun&) = delete;
  const Path& folder() const { return folder_; }

 private:
  Path folder_;
};

int64_t most_at_once(const Scenario& scenario) {
  int64_t most = 1;
  for (const MachineGroup& group : scenario.machines) most = std::max(most, at_once(group));
  return most;
}

// One worker per core, each with the whole model, because cores share caches and memory.
// Microbatches have the recipe's size.
Result<LoadedRecipe> alone(const Scenario& scenario) {
  LEEWAY_ASSIGN(const LoadedRecipe base, scenario.recipe_with({}));
  Scenario own = scenario;
  const PipelineOptions& pipeline = base.recipe.pipeline;
  for (const std::string& set :
       {std::string("mesh.stages=1"), fmt::format("mesh.replicas={}", most_at_once(scenario)),
        std::string("averaging.method=none"), std::string("run.tokens=0"),
        fmt::format("run.updates={}", kUpdates), std::string("run.evaluate_every=0"),
        std::string("run.evaluate_windows=1"), std::string("run.checkpoint_every=0"),
        std::string("run.log=all"), std::string("run.device=cpu"),
        std::string("optimizer.warmup=0"), std::string("sim.speeds=[]"),
        std::string("pipeline.lookahead=auto"), std::string("pipeline.refresh=auto"),
        fmt::format("pipeline.update_every={}", pipeline.update_every)})
    own.sets.push_back(set);
  return own.recipe_with({});
}

// Seconds that the workers spent on each kind of work, from the event log.
struct TimeSpent {
  double microbatches = 0;
  int64_t forwards = 0;
  double steps = 0;
  int64_t updates = 0;
};

Result<TimeSpent> read_times(const Path& folder) {
  LEEWAY_ASSIGN(const EventHistory history, read_events(folder / "events.jsonl"));
  TimeSpent times;
  for (const Event& event : history.events) {
    if (event.kind() != "work" || event.integer("update").value_or(0) <= kWarmup) continue;
    const double took =
        (event.number("end").value_or(0) - event.number("begin").value_or(0)) * 1e-9;
    const std::string kind = event.text("kind").value_or("");
    if (kind == "forward" || kind == "backward") times.microbatches += took;
    if (kind == "forward") ++times.forwards;
    if (kind == "update") times.steps += took;
    if (kind == "update") ++times.updates;
  }
  LEEWAY_CHECK(times.microbatches > 0 && times.steps > 0, "a finished run must have recorded work");
  return times;
}

}  // namespace

Status calibrate(const Clock& clock, const OpenData& open_data, Scenario& scenario) {
  LEEWAY_ASSIGN(const LoadedRecipe own, scenario.recipe_with({}));
  if (own.recipe.run.device.starts_with("cuda"))
    return usage_error("--calibrate measures the CPU: set run.device to \"cpu\"");
  LEEWAY_ASSIGN(const LoadedRecipe loaded, alone(scenario));
  const Recipe& recipe = loaded.recipe;
  const PassingRun run(Path("out") / fmt::format(".calibration-{}", ::getpid()));
  set_up_compute(1, Repeatable::kPrefer);
  keep_freed_memory();
  LEEWAY_ASSIGN(const Dataset data, open_data(recipe, run.folder()));
  LEEWAY_TRY(check_memory(recipe, data.vocabulary));
  Progress progress(clock, "calibrating", kUpdates);
  TrainingObserver observer;
  observer.updated = [&](const UpdateReport& report, double) {
    progress.show(static_cast<uint64_t>(report.update), "updates");
  };
  std::optional<SignalWatch> signals;
  observer.begun = [&](const Recorder::AskRun& ask) {
    signals.emplace([ask] {
      if (interrupted()) ask(Ask::kStop);
    });
  };
  LocalCrew crew(std::make_unique<threads::Threads>(1));
  LEEWAY_ASSIGN(const HeldFolder folder, HeldFolder::hold(run.folder()));
  LEEWAY_ASSIGN(const TrainingSummary summary,
                train({.recipe = recipe, .recipe_text = print_recipe(loaded), .folder = folder},
                      data, crew, observer));
  if (!summary.finished) return stopped_error("calibration was stopped");
  progress.finish("measured");
  LEEWAY_ASSIGN(const TimeSpent times, read_times(run.folder()));
  const sim::StageCosts unit = unit_costs(recipe, data.vocabulary).front();
  const double tflops = (unit.forward + unit.backward).seconds() *
                        static_cast<double>(times.forwards) / times.microbatches;
  const double update_tflops =
      unit.update.seconds() * static_cast<double>(times.updates) / times.steps;
  for (MachineGroup& group : scenario.machines) {
    group.tflops = tflops;
    group.update_tflops = update_tflops;
    group.cores = at_once(group);
  }
  fmt::print(stderr,
             "one worker on this machine: tflops = {:.4g}, update_tflops = {:.4g}; with several "
             "workers, cores = {}\n",
             tflops, update_tflops, core_count());
  return {};
}

}  // namespace leeway
