#include "config/checks.h"

#include <fmt/format.h>

#include "config/keys.h"

namespace leeway {
namespace {

// "model.width = 100 (recipes/quickstart.toml:4)".
std::string named(const LoadedRecipe& loaded, std::string_view path) {
  const Key* key = find_key(path);
  LEEWAY_CHECK(key != nullptr, "checks name keys of the table");
  return fmt::format("{} = {} ({})", path,
                     shown(toml_text(value_of(*key, loaded.recipe)), kShortBytes),
                     origin_text(loaded.origin_of(path)));
}

// The run's length, in the words that the user gave it.
std::string named_length(const LoadedRecipe& loaded) {
  if (loaded.recipe.run.tokens == 0) return named(loaded, "run.updates");
  return fmt::format("the {} updates of {}", loaded.recipe.run.updates,
                     named(loaded, "run.tokens"));
}

Status check_heads(const LoadedRecipe& loaded) {
  const ModelOptions& model = loaded.recipe.model;
  if (model.width % model.heads != 0)
    return usage_error(fmt::format("{} is not a multiple of {}: change one of them",
                                   named(loaded, "model.width"), named(loaded, "model.heads")));
  if (model.architecture == Architecture::kGpt2 && model.kv_heads != model.heads)
    return usage_error(
        fmt::format("{} differs from {}, but {} has no grouped queries: leave "
                    "model.kv_heads out",
                    named(loaded, "model.kv_heads"), named(loaded, "model.heads"),
                    named(loaded, "model.architecture")));
  if (model.heads % model.kv_heads != 0)
    return usage_error(
        fmt::format("{} is not a multiple of {}: each key and value head serves "
                    "the same number of heads",
                    named(loaded, "model.heads"), named(loaded, "model.kv_heads")));
  const int64_t head_size = model.width / model.heads;
  if (model.architecture == Architecture::kLlama && head_size % 2 != 0)
    return usage_error(
        fmt::format("{} over {} leaves {} numbers a head, but llama's rotary "
                    "positions need an even number: change one of them",
                    named(loaded, "model.width"), named(loaded, "model.heads"), head_size));
  return {};
}

Status check_architecture(const LoadedRecipe& loaded) {
  const ModelOptions& model = loaded.recipe.model;
  const bool llama = model.architecture == Architecture::kLlama;
  if (llama != (model.activation == Activation::kSwiglu))
    return usage_error(fmt::format(
        "{} does not go with {}: choose {}", named(loaded, "model.activation"),
        named(loaded, "model.architecture"), llama ? "\"swiglu\"" : "\"gelu\" or \"relu\""));
  if (llama && model.bias)
    return usage_error(
        fmt::format("{} does not go with {}, which has no biases: leave model.bias "
                    "out",
                    named(loaded, "model.bias"), named(loaded, "model.architecture")));
  return {};
}

Status check_run(const LoadedRecipe& loaded) {
  const RunOptions& run = loaded.recipe.run;
  if (run.tokens > 0 && loaded.is_given("run.updates") && loaded.is_given("run.tokens"))
    return usage_error(fmt::format("{} and {} both set the length of the run: keep one of them",
                                   named(loaded, "run.updates"), named(loaded, "run.tokens")));
  if (run.precision == Precision::kFp64 && run.device != "cpu")
    return usage_error(fmt::format("{} does not go with {}: fp64 is for comparisons on the cpu",
                                   named(loaded, "run.precision"), named(loaded, "run.device")));
  return {};
}

Status check_optimizer(const LoadedRecipe& loaded) {
  const OptimizerOptions& optimizer = loaded.recipe.optimizer;
  if (optimizer.warmup > loaded.recipe.run.updates)
    return usage_error(fmt::format("{} is more than {}: shorten the warm-up",
                                   named(loaded, "optimizer.warmup"), named_length(loaded)));
  if (optimizer.name == OptimizerName::kAdamW && optimizer.nesterov)
    return usage_error(
        fmt::format("{} does not go with {}: optimizer.name = \"nadamw\" is that "
                    "form of AdamW",
                    named(loaded, "optimizer.nesterov"), named(loaded, "optimizer.name")));
  if (optimizer.name == OptimizerName::kNAdamW && !optimizer.nesterov)
    return usage_error(
        fmt::format("{} does not go with {}: optimizer.name = \"adamw\" is the "
                    "form without it",
                    named(loaded, "optimizer.nesterov"), named(loaded, "optimizer.name")));
  return {};
}

Status check_mesh(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  if (recipe.model.layers < recipe.mesh.stages)
    return usage_error(fmt::format("{} is less than {}: every stage needs a layer",
                                   named(loaded, "model.layers"), named(loaded, "mesh.stages")));
  if (recipe.data.batch % recipe.pipeline.update_every != 0)
    return usage_error(fmt::format("{} is not a multiple of {}: change one of them",
                                   named(loaded, "data.batch"),
                                   named(loaded, "pipeline.update_every")));
  return {};
}

}  // namespace

Status check_required(const Recipe& recipe, std::string_view source_name) {
  for (const Key& key : keys()) {
    const bool missing = value_of(key, recipe) == Value(std::vector<std::string>());
    if (key.required && missing)
      return usage_error(fmt::format("{}: {} is missing: give {}, in the file or as --set {}=NAME",
                                     shown(source_name), key.path, allowed_text(key), key.path));
  }
  return {};
}

Status check_together(const LoadedRecipe& loaded) {
  LEEWAY_TRY(check_heads(loaded));
  LEEWAY_TRY(check_architecture(loaded));
  LEEWAY_TRY(check_run(loaded));
  LEEWAY_TRY(check_optimizer(loaded));
  LEEWAY_TRY(check_mesh(loaded));
  return {};
}

}  // namespace leeway
