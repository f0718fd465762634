#include "recipe/planned_memory.h"

#include <set>
#include <utility>

#include "recipe/averaging_costs.h"
#include "recipe/lane_options.h"
#include "recipe/placement.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

// How many workers of a device are inside a piece of work when memory peaks. Those of a GPU hand it
// over and then wait, most of the time between two pieces. The shares are from measurements
// (tests/gpu/memory_test.cpp); with recompute a piece is longer, and so more of them overlap.
int64_t computing_max(const Recipe& recipe, bool gpu, int64_t workers) {
  if (recipe.run.driver == DriverName::kSim) return 1;
  if (!gpu) return workers;
  return recipe.pipeline.recompute ? (3 * workers + 3) / 4 : (workers + 1) / 2;
}

}  // namespace

std::vector<StageMemory> planned_memory(const Recipe& recipe, int64_t vocabulary) {
  const int64_t update_every = recipe.pipeline.update_every;
  const RunOptions& run = recipe.run;
  const bool tentative = recipe.pipeline.lookahead == Lookahead::kTentative;
  const bool often = run.evaluate_every > 0 && run.evaluate_every < run.updates;
  const int64_t means = averaging_traffic(recipe, vocabulary).evaluate_mean_every;
  const bool common = recipe.averaging.method == AveragingMethod::kLowbit;
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  std::vector<AveragingMemory> averaging;
  for (const StageOptions& stage : stages)
    averaging.push_back(averaging_memory(recipe, stage, {std::ssize(averaging)}));
  return plan_memory(stages, pipeline_shape(recipe),
                     {.microbatch_tokens = microbatch_tokens(recipe),
                      .run_microbatches = run.updates * update_every,
                      .evaluations_pending = often ? 2 : 0,
                      .replicas = common ? 1 : recipe.mesh.replicas,
                      .evaluates_means = often && means < run.updates,
                      .averaging = averaging,
                      .boundaries = {.guesses = tentative ? recipe.pipeline.refresh : 0,
                                     .merge_position = merge_position(recipe)}});
}

std::map<std::string, StageMemory> memory_by_device(const Recipe& recipe,
                                                    const std::vector<StageMemory>& plan,
                                                    int gpus) {
  std::map<std::string, std::vector<StageMemory>> workers;
  std::set<std::pair<std::string, int64_t>> stages;  // on a device
  for (int64_t replica = 0; replica < recipe.mesh.replicas; ++replica) {
    for (int64_t stage = 0; stage < recipe.mesh.stages; ++stage) {
      std::string device = worker_device(recipe, {.replica = {replica}, .stage = {stage}}, gpus);
      if (!device.starts_with("cuda")) device.clear();
      const bool alone = stages.insert({device, stage}).second;
      workers[device].push_back(
          worker_memory(plan[static_cast<size_t>(stage)], replica == 0, alone));
    }
  }
  std::map<std::string, StageMemory> devices;
  for (const auto& [device, there] : workers)
    devices[device] = together(there, computing_max(recipe, !device.empty(), std::ssize(there)));
  return devices;
}

StageMemory memory_of_all(const Recipe& recipe, const std::vector<StageMemory>& plan, int gpus) {
  StageMemory sum = {.version_count = 0, .in_flight = 0};
  for (const auto& [device, memory] : memory_by_device(recipe, plan, gpus)) sum += memory;
  return sum;
}

}  // namespace leeway
