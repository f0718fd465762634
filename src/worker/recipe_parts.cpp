#include "worker/recipe_parts.h"

#include "base/check.h"

namespace leeway {
namespace {

MlpStyle mlp_style(Activation activation) {
  switch (activation) {
    case Activation::kSwiglu:
      return MlpStyle::kSwiglu;
    case Activation::kGelu:
      return MlpStyle::kGelu;
    case Activation::kRelu:
      return MlpStyle::kRelu;
  }
  LEEWAY_UNREACHABLE("the table of keys knows all activations");
}

UpdateRule update_rule(OptimizerName name) {
  switch (name) {
    case OptimizerName::kMuon:
      return UpdateRule::kMuon;
    case OptimizerName::kAdamW:
      return UpdateRule::kAdamW;
    case OptimizerName::kNAdamW:
      return UpdateRule::kNAdamW;
    case OptimizerName::kSgd:
      return UpdateRule::kSgd;
  }
  LEEWAY_UNREACHABLE("the table of keys knows all optimizers");
}

ScheduleShape schedule_shape(RateSchedule schedule) {
  switch (schedule) {
    case RateSchedule::kCosine:
      return ScheduleShape::kCosine;
    case RateSchedule::kLinear:
      return ScheduleShape::kLinear;
    case RateSchedule::kConstant:
      return ScheduleShape::kConstant;
    case RateSchedule::kWsd:
      return ScheduleShape::kWsd;
  }
  LEEWAY_UNREACHABLE("the table of keys knows all schedules");
}

ModelShape model_shape(const Recipe& recipe, int64_t vocabulary) {
  const ModelOptions& model = recipe.model;
  const bool gpt2 = model.architecture == Architecture::kGpt2;
  return {.style = gpt2 ? BlockStyle::kGpt2 : BlockStyle::kLlama,
          .mlp = mlp_style(model.activation),
          .bias = gpt2 && model.bias,
          .layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .kv_heads = model.kv_heads,
          .hidden = model.hidden,
          .context = model.context,
          .vocabulary = vocabulary};
}

UpdateOptions update_options(const OptimizerOptions& optimizer) {
  return {.rule = update_rule(optimizer.name),
          .rate = optimizer.rate,
          .matrix_rate = optimizer.matrix_rate,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .decay = optimizer.decay,
          .nesterov = optimizer.nesterov};
}

at::ScalarType master_dtype(Precision precision) {
  return precision == Precision::kFp64 ? at::kDouble : at::kFloat;
}

at::ScalarType compute_dtype(Precision precision) {
  return precision == Precision::kBf16 ? at::kBFloat16 : master_dtype(precision);
}

}  // namespace

ScheduleOptions schedule_options(const Recipe& recipe) {
  return {.shape = schedule_shape(recipe.optimizer.schedule),
          .updates = recipe.run.updates,
          .warmup = recipe.optimizer.warmup,
          .final = recipe.optimizer.final};
}

std::vector<StageOptions> stage_options(const Recipe& recipe, int64_t vocabulary) {
  const ModelShape shape = model_shape(recipe, vocabulary);
  std::vector<StageOptions> stages;
  for (const StageSlice& slice : cut_into_stages(shape, recipe.mesh.stages)) {
    stages.push_back({.shape = shape,
                      .slice = slice,
                      .update = update_options(recipe.optimizer),
                      .device = at::Device(recipe.run.device),
                      .master = master_dtype(recipe.run.precision),
                      .compute = compute_dtype(recipe.run.precision),
                      .seed = static_cast<uint64_t>(recipe.run.seed)});
  }
  return stages;
}

}  // namespace leeway
