#include "recipe/stage_options.h"

#include <map>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "optim/lookahead.h"

namespace leeway {
namespace {

ModelShape model_shape(const Recipe& recipe, int64_t vocabulary) {
  const ModelOptions& model = recipe.model;
  return {.architecture = model.architecture,
          .activation = model.activation,
          .bias = model.architecture == Architecture::kGpt2 && model.bias,
          .layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .kv_heads = model.kv_heads,
          .hidden = model.hidden,
          .context = model.context,
          .vocabulary = vocabulary};
}

// Whose mean gradient AdamW's second moment is estimated for. An all-reduce gives it that gradient.
int64_t averaged_replicas(const Recipe& recipe) {
  const AveragingMethod method = recipe.averaging.method;
  const bool steps = method != AveragingMethod::kAllreduce && method != AveragingMethod::kNone;
  const bool mean = recipe.optimizer.second_moment == SecondMoment::kMean;
  return steps && mean ? recipe.mesh.replicas : 1;
}

UpdateOptions update_options(const Recipe& recipe) {
  const OptimizerOptions& optimizer = recipe.optimizer;
  return {.rule = optimizer.name,
          .rate = optimizer.rate,
          .matrix_rate = optimizer.matrix_rate,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .decay = optimizer.decay,
          .nesterov = optimizer.nesterov,
          .gradient_share = optimizer.gradient_share >= 0 ? std::optional(optimizer.gradient_share)
                                                          : std::nullopt,
          .moments = optimizer.moments,
          .seed = static_cast<uint64_t>(recipe.run.seed),
          .replicas = averaged_replicas(recipe)};
}

// Cached: the search takes tens of milliseconds for long delays, and stage_options() is called
// often.
MatchedConstants matched_once(double beta1, const Schedule& schedule,
                              std::optional<double> horizon) {
  thread_local std::map<std::tuple<double, int64_t, int64_t, double>, MatchedConstants> found;
  const auto [entry, fresh] =
      found.try_emplace({beta1, schedule.warmup(), schedule.update_every(), horizon.value_or(-1)});
  if (fresh) {
    const DelayMix mix = delay_mix(schedule.warmup(), schedule.update_every());
    entry->second = matched_constants(beta1, mix, horizon);
  }
  return entry->second;
}

// What a stage does about late gradients; nothing if none are late.
void look_ahead(const Recipe& recipe, const Schedule& schedule, StagesFor use,
                StageOptions& stage) {
  // For so few stages and delays, fitting takes a fraction of a second.
  constexpr int64_t kStagesQuick = 64;
  constexpr int64_t kDelayQuick = 64;
  const PipelineOptions& pipeline = recipe.pipeline;
  // The Nesterov form applies to the whole model, whether a stage is late or not.
  if (pipeline.lookahead == Lookahead::kNesterov && stage.update.rule == UpdateRule::kAdamW) {
    stage.update.rule = UpdateRule::kNAdamW;
  }
  if (schedule.delay_max() == 0) return;
  const std::optional<double> given =
      pipeline.horizon >= 0 ? std::optional(pipeline.horizon) : std::nullopt;
  if (pipeline.lookahead == Lookahead::kPredict) stage.horizon = given.value_or(1.0);
  if (pipeline.lookahead == Lookahead::kMatched) {
    const bool quick = recipe.mesh.stages <= kStagesQuick && schedule.delay_max() <= kDelayQuick;
    if (use == StagesFor::kPlan && !quick) {
      stage.horizon = given.value_or(1.0);
      return;
    }
    const MatchedConstants matched = matched_once(stage.update.beta1, schedule, given);
    stage.update.gradient_share = matched.gradient_share;
    stage.horizon = matched.horizon;
  }
}

at::ScalarType master_dtype(Precision precision) {
  return precision == Precision::kFp64 ? at::kDouble : at::kFloat;
}

at::ScalarType compute_dtype(Precision precision) {
  return precision == Precision::kBf16 ? at::kBFloat16 : master_dtype(precision);
}

}  // namespace

RateScheduleOptions rate_schedule_options(const Recipe& recipe) {
  return {.shape = recipe.optimizer.schedule,
          .updates = recipe.run.updates,
          .warmup = recipe.optimizer.warmup,
          .final = recipe.optimizer.final};
}

PipelineShape pipeline_shape(const Recipe& recipe) {
  return {.order = recipe.pipeline.schedule,
          .stages = recipe.mesh.stages,
          .update_every = recipe.pipeline.update_every,
          .extra_per_hop = recipe.pipeline.extra_per_hop};
}

int64_t tokens_per_update(const Recipe& recipe) {
  return recipe.data.batch * recipe.model.context * recipe.mesh.replicas;
}

int64_t microbatch_sequences(const Recipe& recipe) {
  return recipe.data.batch / recipe.pipeline.update_every;
}

int64_t microbatch_tokens(const Recipe& recipe) {
  return microbatch_sequences(recipe) * recipe.model.context;
}

StageWire stage_wire(const Recipe& recipe, const StageOptions& stage) {
  StageWire wire = {.sequences = microbatch_sequences(recipe),
                    .context = recipe.model.context,
                    .width = recipe.model.width,
                    .type = stage.compute};
  switch (recipe.pipeline.wire) {
    case PipelineWire::kF32:
      wire.format = WireFormat::kF32;
      break;
    case PipelineWire::kBf16:
      wire.format = WireFormat::kBf16;
      break;
    case PipelineWire::kInt8:
      wire.format = WireFormat::kInt8;
      break;
    case PipelineWire::kInt4:
      wire.format = WireFormat::kInt4;
      break;
  }
  return wire;
}

// With `recompute`, slots that keep room for all activations would take the memory that it saves.
bool uses_graphs(const PipelineOptions& pipeline, const at::Device& device) {
  return pipeline.graphs && !device.is_cpu() && !pipeline.recompute && pipeline.stash &&
         pipeline.stash_on == StashPlace::kDevice;
}

std::vector<StageOptions> stage_options(const Recipe& recipe, int64_t vocabulary, StagesFor use) {
  const ModelShape shape = model_shape(recipe, vocabulary);
  const at::Device device = recipe.run.device.starts_with("cuda") ? at::kCUDA : at::kCPU;
  std::vector<StageOptions> stages;
  for (const StageSlice& slice : cut_into_stages(shape, recipe.mesh.stages)) {
    stages.push_back({.shape = shape,
                      .slice = slice,
                      .update = update_options(recipe),
                      .device = device,
                      .master = master_dtype(recipe.run.precision),
                      .compute = compute_dtype(recipe.run.precision),
                      .seed = static_cast<uint64_t>(recipe.run.seed),
                      .recompute = recipe.pipeline.recompute,
                      .stash = recipe.pipeline.stash,
                      .stash_on = recipe.pipeline.stash_on,
                      .graphs = uses_graphs(recipe.pipeline, device)});
    const StageId stage = {static_cast<int64_t>(stages.size()) - 1};
    look_ahead(recipe, Schedule(pipeline_shape(recipe), stage), use, stages.back());
  }
  return stages;
}

}  // namespace leeway
