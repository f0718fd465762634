#include "worker/mesh.h"

#include <algorithm>

#include "base/check.h"
#include "worker/recipe_parts.h"

namespace leeway {
namespace {

constexpr int64_t kPredictionSamples = 50;  // over a run: each costs two copies of the weights

SamplerOptions sampler_of(const Recipe& recipe, const TokenFile& train) {
  return {.seed = static_cast<uint64_t>(recipe.run.seed),
          .window_count = window_count_of(train.info().count, recipe.model.context),
          .replicas = 1,
          .microbatch = recipe.data.batch / recipe.pipeline.update_every};
}

}  // namespace

RunPlan make_plan(const Recipe& recipe, const MeshData& data) {
  const int64_t microbatch = recipe.data.batch / recipe.pipeline.update_every;
  RunPlan plan = {.shape = pipeline_shape(recipe),
                  .first_update = 0,
                  .last_update = recipe.run.updates,
                  .run_updates = recipe.run.updates,
                  .evaluate_every = recipe.run.evaluate_every,
                  .checkpoint_every = recipe.run.checkpoint_every};
  if (data.valid != nullptr) {
    plan.evaluation_batches =
        evaluation_batches(*data.valid, {.context = recipe.model.context,
                                         .windows = recipe.run.evaluate_windows,
                                         .batch = microbatch});
  }
  const auto number_bytes =
      static_cast<int64_t>(c10::elementSize(stage_options(recipe, data.vocabulary)[0].compute));
  plan.activation_bytes = microbatch * recipe.model.context * recipe.model.width * number_bytes;
  return plan;
}

Workers make_workers(const Recipe& recipe, const MeshData& data, const RunPlan& plan) {
  const std::vector<StageOptions> stages = stage_options(recipe, data.vocabulary);
  const ModelShape& shape = stages.front().shape;
  const bool looks_ahead = std::any_of(stages.begin(), stages.end(),
                                       [](const StageOptions& s) { return s.horizon > 0; });
  Workers workers;
  for (size_t s = 0; s < stages.size(); ++s) {
    const WorkerId id = {.replica = {0}, .stage = {static_cast<int64_t>(s)}};
    const Schedule schedule(plan.shape, id.stage);
    const bool tentative = recipe.pipeline.lookahead == Lookahead::kTentative;
    const bool discounts = recipe.pipeline.lookahead == Lookahead::kLrDiscount;
    const StageNumbersOptions options = {
        .worker = id,
        .stage = stages[s],
        .sampler = sampler_of(recipe, data.train),
        .schedule = schedule_options(recipe),
        .update_every = plan.shape.update_every,
        .clip = recipe.optimizer.clip,
        .model_parameters = parameter_count(slice_layout(shape, whole_model(shape))),
        .delay_max = schedule.delay_max(),
        .tentative = {.warmup = schedule.delay_max() == 0 ? 0 : schedule.warmup(),
                      .refresh = tentative ? recipe.pipeline.refresh : 0},
        .discount_updates = discounts ? recipe.pipeline.discount_updates : 0,
        .predict_every = schedule.delay_max() == 0
                             ? 0
                             : std::max<int64_t>(1, plan.run_updates / kPredictionSamples),
        .evaluate_windows = recipe.run.evaluate_windows,
        .saves_last_update = looks_ahead};
    workers.push_back(std::make_unique<Worker>(
        id, plan, std::make_unique<StageNumbers>(options, data.train, data.valid)));
  }
  return workers;
}

int64_t parameters_of(const Workers& workers) {
  int64_t count = 0;
  for (const auto& worker : workers) count += worker->numbers()->stage().weights().numel();
  return count;
}

at::Tensor weights_of(const Workers& workers) {
  std::vector<at::Tensor> parts;
  for (const auto& worker : workers) parts.push_back(worker->numbers()->stage().weights());
  return (parts.size() == 1 ? parts.front() : at::cat(parts)).cpu();
}

ModelState join(const std::vector<StageState>& stages) {
  ModelState whole = {.weights = {}, .optimizer = stages.front().optimizer};
  std::vector<at::Tensor> weights;
  for (const StageState& stage : stages) weights.push_back(stage.weights);
  whole.weights = at::cat(weights);
  for (size_t b = 0; b < whole.optimizer.buffers.size(); ++b) {
    std::vector<at::Tensor> parts;
    for (const StageState& stage : stages) parts.push_back(stage.optimizer.buffers[b].second);
    whole.optimizer.buffers[b].second = at::cat(parts);
  }
  return whole;
}

size_t buffer_count(const Workers& workers) { return workers.front()->numbers()->buffer_count(); }

Status restore(const Workers& workers, const ModelState& state) {
  LEEWAY_CHECK(state.weights.numel() == parameters_of(workers), "shapes were checked before");
  int64_t offset = 0;
  for (const auto& worker : workers) {
    StageNumbers& numbers = *worker->numbers();
    const int64_t count = numbers.stage().weights().numel();
    Optimizer::State part = state.optimizer;
    for (auto& [name, buffer] : part.buffers) buffer = buffer.narrow(0, offset, count);
    LEEWAY_TRY(numbers.restore(state.weights.narrow(0, offset, count), part));
    offset += count;
  }
  return {};
}

}  // namespace leeway
