#include "recipe/make_plan.h"

#include "compute/evaluation_batches.h"
#include "recipe/averaging_costs.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"

namespace leeway {

RunPlan make_plan(const Recipe& recipe, const MeshData& data) {
  int64_t batches = 0;
  if (data.valid != nullptr) {
    batches = evaluation_batches(*data.valid, {.context = recipe.model.context,
                                               .windows = recipe.run.evaluate_windows,
                                               .batch = microbatch_sequences(recipe)});
  }
  return make_plan(recipe, data.vocabulary, batches);
}

RunPlan make_plan(const Recipe& recipe, int64_t vocabulary, int64_t evaluation_batches) {
  RunPlan plan = {.shape = pipeline_shape(recipe),
                  .first_update = 0,
                  .last_update = recipe.run.updates,
                  .run_updates = recipe.run.updates,
                  .evaluate_every = recipe.run.evaluate_every,
                  .evaluation_batches = evaluation_batches,
                  .checkpoint_every = recipe.run.checkpoint_every};
  const auto number_bytes = static_cast<int64_t>(
      c10::elementSize(stage_options(recipe, vocabulary, StagesFor::kPlan)[0].compute));
  plan.replicas = recipe.mesh.replicas;
  plan.lanes = lane_plans(recipe, vocabulary);
  plan.evaluation = evaluation_lane(recipe, vocabulary);
  plan.join_bytes_per_second = recipe.run.join_mbit * 1e6 / 8;
  plan.evaluation.interval = averaging_traffic(recipe, vocabulary).evaluate_mean_every;
  plan.seed = static_cast<uint64_t>(recipe.run.seed);
  plan.activation_bytes = microbatch_tokens(recipe) * recipe.model.width * number_bytes;
  return plan;
}

}  // namespace leeway
