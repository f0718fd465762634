#include "recipe/planned_memory.h"

#include "recipe/averaging_costs.h"
#include "recipe/stage_options.h"

namespace leeway {

std::vector<StageMemory> planned_memory(const Recipe& recipe, int64_t vocabulary) {
  const int64_t update_every = recipe.pipeline.update_every;
  const RunOptions& run = recipe.run;
  const bool tentative = recipe.pipeline.lookahead == Lookahead::kTentative;
  const bool often = run.evaluate_every > 0 && run.evaluate_every < run.updates;
  const bool common = recipe.averaging.method == AveragingMethod::kLowbit;
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  std::vector<AveragingMemory> averaging;
  for (const StageOptions& stage : stages)
    averaging.push_back(averaging_memory(recipe, stage, {std::ssize(averaging)}));
  return plan_memory(stages, pipeline_shape(recipe),
                     {.microbatch_tokens = microbatch_tokens(recipe),
                      .run_microbatches = run.updates * update_every,
                      .evaluations_pending = often ? 2 : 1,
                      .replicas = common ? 1 : recipe.mesh.replicas,
                      .averaging = averaging,
                      .guesses = tentative ? recipe.pipeline.refresh : 0});
}

}  // namespace leeway
