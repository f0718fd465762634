#include "config/idle_keys.h"

#include <fmt/format.h>

#include <optional>

#include "config/averaging_rules.h"
#include "config/checks.h"
#include "config/keys.h"
#include "config/named.h"
#include "config/resolve.h"

namespace leeway {
namespace {

using Decider = std::optional<std::string_view>;  // the key that leaves another without effect

Decider decider_in_model(std::string_view path, const ModelOptions& model) {
  const bool llama = model.architecture == Architecture::kLlama;
  const bool idle =
      (path == "model.activation" && llama != (model.activation == Activation::kSwiglu)) ||
      (path == "model.bias" && llama && model.bias) ||
      (path == "model.kv_heads" && !llama && model.kv_heads != model.heads);
  return idle ? Decider("model.architecture") : std::nullopt;
}

Decider decider_in_optimizer(std::string_view path, const Recipe& recipe) {
  const OptimizerOptions& optimizer = recipe.optimizer;
  const Lookahead lookahead = recipe.pipeline.lookahead;
  const bool by_nesterov = lookahead == Lookahead::kNesterov;
  if (path == "optimizer.gradient_share" && (lookahead == Lookahead::kMatched || by_nesterov))
    return "pipeline.lookahead";
  if (path == "optimizer.second_moment" && optimizer.second_moment == SecondMoment::kMean) {
    if (optimizer.name == UpdateRule::kSgd) return "optimizer.name";
    const bool own = recipe.averaging.method == AveragingMethod::kAllreduce;
    return own && recipe.mesh.replicas > 1 ? Decider("averaging.method") : std::nullopt;
  }
  const bool synchronous = recipe.pipeline.schedule != PipelineSchedule::kAsync;
  if (path == "optimizer.clip_stages" && synchronous && optimizer.clip_stages == StageClip::kWhole)
    return "pipeline.schedule";
  if (path != "optimizer.nesterov") return std::nullopt;
  const bool adamw = optimizer.name == UpdateRule::kAdamW;
  const bool nadamw = optimizer.name == UpdateRule::kNAdamW;
  if ((adamw && optimizer.nesterov && !by_nesterov) || (nadamw && !optimizer.nesterov))
    return "optimizer.name";
  return by_nesterov && !optimizer.nesterov ? Decider("pipeline.lookahead") : std::nullopt;
}

Decider decider_in_pipeline(std::string_view path, const Recipe& recipe) {
  const Lookahead lookahead = recipe.pipeline.lookahead;
  const bool nesterov = lookahead == Lookahead::kNesterov;  // changes the optimizer, late or not
  const bool predicts = lookahead == Lookahead::kMatched || lookahead == Lookahead::kPredict;
  const bool itself = path == "pipeline.lookahead";
  const bool refresh = path == "pipeline.refresh";
  const bool horizon = path == "pipeline.horizon";
  if (itself && !nesterov && recipe.optimizer.name == UpdateRule::kNAdamW) return "optimizer.name";
  const bool flushes = recipe.pipeline.schedule != PipelineSchedule::kAsync;
  const bool late = itself && !nesterov && lookahead != Lookahead::kNone;
  if (flushes && (late || refresh || horizon)) return "pipeline.schedule";
  if ((horizon && !predicts) || (refresh && lookahead != Lookahead::kTentative))
    return "pipeline.lookahead";
  return std::nullopt;
}

Decider decider_in_averaging(std::string_view path, const AveragingOptions& averaging) {
  const bool lowbit = averaging.method == AveragingMethod::kLowbit;
  if (path == "averaging.wire" && has_few_bits(averaging.wire) && !lowbit)
    return "averaging.method";
  const auto idle = idle_averaging(path, averaging);
  return idle ? Decider(idle->decided_by) : std::nullopt;
}

Decider decider_of(std::string_view path, const Recipe& recipe) {
  if (const auto found = decider_in_model(path, recipe.model)) return found;
  if (const auto found = decider_in_optimizer(path, recipe)) return found;
  if (const auto found = decider_in_pipeline(path, recipe)) return found;
  if (const auto found = decider_in_averaging(path, recipe.averaging)) return found;
  const bool simulated = recipe.run.driver == DriverName::kSim;
  if (path == "sim.speeds" && !simulated && !speeds_fit(recipe)) return "mesh.stages";
  return std::nullopt;
}

struct IdleKey {
  std::string_view path;
  std::string_view decided_by;
};

std::optional<IdleKey> first_idle(const Recipe* files, const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  // With `none` the whole table is ignored, without a word: a recipe for several replicas must run
  // with one.
  const bool apart = recipe.averaging.method == AveragingMethod::kNone;
  for (const Key& key : keys()) {
    if (loaded.origin_of(key.path).kind != Origin::Kind::kFile) continue;
    if (apart && key.table() == "averaging") continue;
    const Decider decider = decider_of(key.path, recipe);
    if (!decider) continue;
    const Key& by = *find_key(*decider);
    if (files == nullptr || value_of(by, *files) != value_of(by, recipe))
      return IdleKey{key.path, *decider};
  }
  return std::nullopt;
}

}  // namespace

void forget(std::string_view path, LoadedRecipe& loaded) {
  const bool assigned = assign(*find_key(path), value_of(*find_key(path), Recipe{}), loaded.recipe);
  LEEWAY_CHECK(assigned, "a key does not allow its own default");
  loaded.origins.erase(std::string(path));
}

void drop_idle(const Recipe* files, LoadedRecipe& loaded) {
  while (true) {  // one at a time: the default of one key may leave another without effect
    LoadedRecipe complete = loaded;
    resolve(complete);
    const auto idle = first_idle(files, complete);
    if (!idle) return;
    loaded.notes.push_back(fmt::format("{} is left out: it does not go with {}",
                                       named(complete, idle->path),
                                       named(complete, idle->decided_by)));
    forget(idle->path, loaded);
  }
}

}  // namespace leeway
