#include "config/resolve.h"

#include <algorithm>

#include "config/averaging_rules.h"
#include "config/keys.h"

namespace leeway {
namespace {

// Measured, not derived: docs/decisions/003.
constexpr double kTentativeShare = 0.2;

// W_0: how many microbatches the first stage runs ahead.
int64_t depth(const Recipe& recipe) {
  return (recipe.mesh.stages - 1) * (1 + recipe.pipeline.extra_per_hop);
}

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t automatic_hidden(const ModelOptions& model) {
  if (model.architecture == Architecture::kGpt2) return 4 * model.width;
  // llama has three matrices to gpt2's two, so 2/3 of the width gives as many parameters.
  return divide_up(divide_up(8 * model.width, 3), 32) * 32;
}

// AdamW with this look-ahead is NAdamW, whatever its name in the recipe.
bool becomes_nadamw(const Recipe& recipe) {
  const bool adamw = recipe.optimizer.name == UpdateRule::kAdamW;
  return recipe.optimizer.name == UpdateRule::kNAdamW ||
         (adamw && recipe.pipeline.lookahead == Lookahead::kNesterov);
}

double automatic_beta1(UpdateRule name) {
  switch (name) {
    case UpdateRule::kMuon:
      return 0.95;
    case UpdateRule::kNAdamW:
      return 0.99;
    case UpdateRule::kAdamW:
    case UpdateRule::kSgd:
      return 0.9;
  }
  return 0.0;
}

// Operations of one update of one replica, roughly: forward and backward take 6 per weight and
// token, attention 12 per layer, unit of width and position.
double update_flops(const Recipe& recipe) {
  constexpr double kByteVocabulary = 257, kLargeVocabulary = 50'257;
  const ModelOptions& model = recipe.model;
  const auto width = static_cast<double>(model.width);
  const double matrices = model.architecture == Architecture::kLlama ? 3 : 2;
  const double block = 4 * width * width + matrices * width * static_cast<double>(model.hidden);
  const double head =
      width * (recipe.data.tokenizer == "bytes" ? kByteVocabulary : kLargeVocabulary);
  const auto layers = static_cast<double>(model.layers);
  const double per_token =
      6 * (layers * block + head) + 12 * layers * width * static_cast<double>(model.context);
  return per_token * static_cast<double>(recipe.data.batch) * static_cast<double>(model.context);
}

// From the recipe alone, so that the same recipe has the same flush points on every machine: two
// minutes of a modest machine, rounded down to 1, 2 or 5 times a power of ten. At least 10, because
// a pipeline drains at each.
int64_t automatic_checkpoint_every(const Recipe& recipe) {
  constexpr double kSeconds = 120, kCpuFlops = 4e10, kGpuFlops = 4e13, kMost = 1e6;
  const double flops = recipe.run.device.starts_with("cuda") ? kGpuFlops : kCpuFlops;
  const double wanted = std::min(kSeconds * flops / update_flops(recipe), kMost);
  int64_t every = 10;
  for (int64_t power = 10; static_cast<double>(power) <= wanted; power *= 10) {
    for (const int64_t times : {1, 2, 5})
      if (static_cast<double>(times * power) <= wanted) every = times * power;
  }
  return every;
}

void resolve_model(const LoadedRecipe& loaded, ModelOptions& model) {
  const bool llama = model.architecture == Architecture::kLlama;
  if (!loaded.is_given("model.kv_heads")) model.kv_heads = model.heads;
  if (!loaded.is_given("model.hidden")) model.hidden = automatic_hidden(model);
  if (!loaded.is_given("model.activation"))
    model.activation = llama ? Activation::kSwiglu : Activation::kGelu;
  if (!loaded.is_given("model.bias")) model.bias = !llama;
}

void resolve_optimizer(const LoadedRecipe& loaded, Recipe& recipe) {
  OptimizerOptions& optimizer = recipe.optimizer;
  const UpdateRule acts_as = becomes_nadamw(recipe) ? UpdateRule::kNAdamW : optimizer.name;
  if (!loaded.is_given("optimizer.beta1")) optimizer.beta1 = automatic_beta1(acts_as);
  if (!loaded.is_given("optimizer.beta2"))
    optimizer.beta2 = acts_as == UpdateRule::kNAdamW ? 0.999 : 0.99;
  const bool late = recipe.pipeline.schedule == PipelineSchedule::kAsync && depth(recipe) > 0;
  const bool tentative = recipe.pipeline.lookahead == Lookahead::kTentative;
  if (!loaded.is_given("optimizer.gradient_share") && late && tentative)
    optimizer.gradient_share = kTentativeShare;
  if (!loaded.is_given("optimizer.nesterov")) optimizer.nesterov = acts_as != UpdateRule::kAdamW;
}

void resolve_lookahead(const LoadedRecipe& loaded, Recipe& recipe) {
  PipelineOptions& pipeline = recipe.pipeline;
  const bool nadamw = recipe.optimizer.name == UpdateRule::kNAdamW;
  const bool async = pipeline.schedule == PipelineSchedule::kAsync;
  const bool one_late = pipeline.update_every > depth(recipe);  // at most one update late
  if (!loaded.is_given("pipeline.lookahead"))
    pipeline.lookahead = nadamw     ? Lookahead::kNesterov
                         : !async   ? Lookahead::kNone
                         : one_late ? Lookahead::kTentative
                                    : Lookahead::kMatched;
  if (!loaded.is_given("pipeline.refresh") && pipeline.lookahead == Lookahead::kTentative)
    pipeline.refresh = 2;
  // If no other key decides, these stay "auto": matched has its own horizon for each stage, and the
  // other look-aheads use neither.
  if (!loaded.is_given("pipeline.horizon") && pipeline.lookahead == Lookahead::kPredict)
    pipeline.horizon = 1.0;
}

// The method decides the defaults of the other keys; those it ignores get neutral values.
void resolve_averaging(const LoadedRecipe& loaded, Recipe& recipe) {
  AveragingMethod& method = recipe.averaging.method;
  if (!loaded.is_given("averaging.method"))
    method = recipe.mesh.replicas == 1 ? AveragingMethod::kNone : AveragingMethod::kSparse;
  Recipe usual;
  usual.averaging = averaging_defaults(method);
  const bool none = method == AveragingMethod::kNone;  // then given values are ignored
  for (const Key& key : keys()) {
    if (key.table() != "averaging" || (loaded.is_given(key.path) && !none)) continue;
    const bool assigned = assign(key, value_of(key, usual), recipe);
    LEEWAY_CHECK(assigned, "a key does not allow its own default");
  }
}

}  // namespace

void resolve(LoadedRecipe& loaded) {
  Recipe& recipe = loaded.recipe;
  resolve_model(loaded, recipe.model);
  if (!loaded.is_given("pipeline.update_every"))  // K = W_0 + 1
    recipe.pipeline.update_every = depth(recipe) + 1;
  const int64_t tokens_per_update = recipe.data.batch * recipe.model.context * recipe.mesh.replicas;
  const bool both_given = loaded.is_given("run.updates") && loaded.is_given("run.tokens");
  if (recipe.run.tokens > 0 && !both_given)
    recipe.run.updates = divide_up(recipe.run.tokens, tokens_per_update);
  if (!loaded.is_given("run.checkpoint_every"))
    recipe.run.checkpoint_every = automatic_checkpoint_every(recipe);
  resolve_lookahead(loaded, recipe);  // needs the run's length; the optimizer needs the look-ahead
  resolve_optimizer(loaded, recipe);
  resolve_averaging(loaded, recipe);
}

}  // namespace leeway
