#include "config/resolve.h"

namespace leeway {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t automatic_hidden(const ModelOptions& model) {
  if (model.architecture == Architecture::kGpt2) return 4 * model.width;
  // Three matrices where gpt2 has two, so 2/3 of its width for the same number of parameters.
  return divide_up(divide_up(8 * model.width, 3), 32) * 32;
}

double automatic_beta1(OptimizerName name) {
  switch (name) {
    case OptimizerName::kMuon:
      return 0.95;
    case OptimizerName::kNAdamW:
      return 0.99;
    case OptimizerName::kAdamW:
    case OptimizerName::kSgd:
      return 0.9;
  }
  return 0.0;
}

void resolve_model(const LoadedRecipe& loaded, ModelOptions& model) {
  const bool llama = model.architecture == Architecture::kLlama;
  if (!loaded.is_given("model.kv_heads")) model.kv_heads = model.heads;
  if (!loaded.is_given("model.hidden")) model.hidden = automatic_hidden(model);
  if (!loaded.is_given("model.activation"))
    model.activation = llama ? Activation::kSwiglu : Activation::kGelu;
  if (!loaded.is_given("model.bias")) model.bias = !llama;
}

void resolve_optimizer(const LoadedRecipe& loaded, OptimizerOptions& optimizer) {
  if (!loaded.is_given("optimizer.beta1")) optimizer.beta1 = automatic_beta1(optimizer.name);
  if (!loaded.is_given("optimizer.beta2"))
    optimizer.beta2 = optimizer.name == OptimizerName::kNAdamW ? 0.999 : 0.99;
  if (!loaded.is_given("optimizer.nesterov"))
    optimizer.nesterov = optimizer.name != OptimizerName::kAdamW;
}

}  // namespace

void resolve(LoadedRecipe& loaded) {
  Recipe& recipe = loaded.recipe;
  resolve_model(loaded, recipe.model);
  resolve_optimizer(loaded, recipe.optimizer);
  if (!loaded.is_given("pipeline.update_every"))
    recipe.pipeline.update_every = recipe.mesh.stages;  // K = W_0 + 1 with W_0 = P - 1
  const int64_t tokens_per_update = recipe.data.batch * recipe.model.context;
  const bool both_given = loaded.is_given("run.updates") && loaded.is_given("run.tokens");
  if (recipe.run.tokens > 0 && !both_given)
    recipe.run.updates = divide_up(recipe.run.tokens, tokens_per_update);
}

}  // namespace leeway
