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
  StageWire wire = stage_wire(recipe, stage_options(recipe, vocabulary, StagesFor::kPlan).front());
  plan.replicas = recipe.mesh.replicas;
  plan.lanes = lane_plans(recipe, vocabulary);
  plan.evaluation = evaluation_lane(recipe, vocabulary);
  plan.join_bytes_per_second = recipe.run.join_mbit * 1e6 / 8;
  plan.evaluation.interval = averaging_traffic(recipe, vocabulary).evaluate_mean_every;
  plan.seed = static_cast<uint64_t>(recipe.run.seed);
  plan.activation_bytes = wire.bytes();
  wire.format = WireFormat::kF32;
  plan.evaluation_bytes = wire.bytes();
  return plan;
}

}  // namespace leeway
