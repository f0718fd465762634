#include "config/checks.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>

#include "config/averaging_checks.h"
#include "config/faults.h"
#include "config/keys.h"
#include "config/named.h"
#include "config/texts.h"

namespace leeway {
namespace {

Status check_heads(const LoadedRecipe& loaded) {
  const ModelOptions& model = loaded.recipe.model;
  if (model.width % model.heads != 0)
    return usage_error(fmt::format("{} is not a multiple of {}: change one of them",
                                   named(loaded, "model.width"), named(loaded, "model.heads")));
  if (model.architecture == Architecture::kGpt2 && model.kv_heads != model.heads)
    return usage_error(
        fmt::format("{} differs from {}, but {} has no grouped-query attention: leave "
                    "model.kv_heads out",
                    named(loaded, "model.kv_heads"), named(loaded, "model.heads"),
                    named(loaded, "model.architecture")));
  if (model.heads % model.kv_heads != 0)
    return usage_error(
        fmt::format("{} is not a multiple of {}: each key and value head must serve "
                    "the same number of heads",
                    named(loaded, "model.heads"), named(loaded, "model.kv_heads")));
  const int64_t head_size = model.width / model.heads;
  if (model.architecture == Architecture::kLlama && head_size % 2 != 0)
    return usage_error(
        fmt::format("{} over {} gives a head size of {}, but llama's rotary "
                    "positions need an even one: change one of them",
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
  const bool gpu = run.device.starts_with("cuda");
  if (run.precision == Precision::kFp64 && gpu)
    return usage_error(fmt::format("{} does not go with {}: fp64 is for comparisons on the cpu",
                                   named(loaded, "run.precision"), named(loaded, "run.device")));
  if (run.precision == Precision::kFp64 && loaded.recipe.optimizer.moments == MomentType::kBf16)
    return usage_error(fmt::format("{} does not go with {}: weights in fp64 have moments in fp64",
                                   named(loaded, "optimizer.moments"),
                                   named(loaded, "run.precision")));
  if (run.driver == DriverName::kSim && gpu)
    return usage_error(fmt::format("{} does not go with {}: the simulator computes on the cpu",
                                   named(loaded, "run.driver"), named(loaded, "run.device")));
  const std::vector<std::string>& devices = loaded.recipe.mesh.devices;
  for (const std::string& device : devices) {
    if (!is_device(device) || !device.starts_with("cuda:"))
      return usage_error(fmt::format("{} has {}, which is no GPU: write \"cuda:N\"",
                                     named(loaded, "mesh.devices"), device));
  }
  if (!devices.empty() && run.device != "cuda")
    return usage_error(fmt::format("{} needs run.device = \"cuda\", not {}",
                                   named(loaded, "mesh.devices"), named(loaded, "run.device")));
  return {};
}

// The driver can plan faults, and each sentence is one that is known, about a replica that there
// is, which is away when it comes back.
Status check_faults(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const std::string key = named(loaded, "run.faults");
  const DriverName driver = recipe.run.driver;
  if (!recipe.run.faults.empty() && driver != DriverName::kThreads && driver != DriverName::kSim)
    return usage_error(
        fmt::format("{} does not go with {}: planned faults are for threads and sim; leave "
                    "run.faults out, and end a process to see what happens",
                    key, named(loaded, "run.driver")));
  std::map<int64_t, int64_t> away_since;  // by replica: update
  for (const std::string& text : recipe.run.faults) {
    const std::optional<RunFault> fault = parse_run_fault(text);
    if (!fault)
      return usage_error(fmt::format(
          "{}: \"{}\" is not a fault that Leeway knows; write \"replica 1 lost at 200\", "
          "\"replica 1 leaves at 200\", \"replica 1 back at 300\", \"replica 1 back with its disk "
          "at 300\" or \"coordinator lost at 450\"",
          key, text));
    if (fault->kind == RunFault::Kind::kCoordinatorLost) continue;
    if (fault->replica >= recipe.mesh.replicas)
      return usage_error(
          fmt::format("{}: \"{}\" is about a replica that there is not: {}; they are "
                      "counted from 0",
                      key, text, named(loaded, "mesh.replicas")));
    const auto away = away_since.find(fault->replica);
    const bool back = fault->kind == RunFault::Kind::kBack;
    if (back != (away != away_since.end()) || (back && fault->update <= away->second))
      return usage_error(fmt::format(
          "{}: \"{}\": a replica is lost first and back after that; write them in this order", key,
          text));
    if (back) {
      away_since.erase(away);
    } else {
      away_since[fault->replica] = fault->update;
    }
  }
  return {};
}

Status check_sim(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const auto speeds = static_cast<int64_t>(recipe.sim.speeds.size());
  const int64_t replicas = recipe.mesh.replicas;
  if (!speeds_fit(recipe))
    return usage_error(fmt::format(
        "{} has {} number{}, but {} needs one per stage{}: change one of them",
        named(loaded, "sim.speeds"), speeds, speeds == 1 ? "" : "s", named(loaded, "mesh.stages"),
        replicas == 1
            ? ""
            : fmt::format(", or one per worker, {} in all", recipe.mesh.stages * replicas)));
  return {};
}

Status check_optimizer(const LoadedRecipe& loaded) {
  const OptimizerOptions& optimizer = loaded.recipe.optimizer;
  if (optimizer.warmup > loaded.recipe.run.updates)
    return usage_error(fmt::format("{} is more than {}: shorten the warm-up",
                                   named(loaded, "optimizer.warmup"), named_length(loaded)));
  const Lookahead lookahead = loaded.recipe.pipeline.lookahead;
  if (optimizer.name == UpdateRule::kAdamW && optimizer.nesterov &&
      lookahead != Lookahead::kNesterov)
    return usage_error(
        fmt::format("{} does not go with {}: optimizer.name = \"nadamw\" is AdamW with it",
                    named(loaded, "optimizer.nesterov"), named(loaded, "optimizer.name")));
  if (optimizer.name == UpdateRule::kNAdamW && !optimizer.nesterov)
    return usage_error(
        fmt::format("{} does not go with {}: optimizer.name = \"adamw\" is the form without it",
                    named(loaded, "optimizer.nesterov"), named(loaded, "optimizer.name")));
  return {};
}

// Without an effect they would make a comparison of nothing. One replica may have any.
Status check_moments(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  if (recipe.optimizer.second_moment != SecondMoment::kMean) return {};
  if (recipe.optimizer.name == UpdateRule::kSgd)
    return usage_error(
        fmt::format("{} does not go with {}, which has no second moment: leave it out",
                    named(loaded, "optimizer.second_moment"), named(loaded, "optimizer.name")));
  if (recipe.averaging.method == AveragingMethod::kAllreduce && recipe.mesh.replicas > 1)
    return usage_error(fmt::format(
        "{} does not go with {}: every replica has the mean gradient itself; leave it out",
        named(loaded, "optimizer.second_moment"), named(loaded, "averaging.method")));
  return {};
}

// These keys have no effect if every update flushes. Nesterov still has one: it changes the
// optimizer.
Status check_flushed(const LoadedRecipe& loaded) {
  const PipelineOptions& pipeline = loaded.recipe.pipeline;
  if (pipeline.schedule == PipelineSchedule::kAsync) return {};
  const bool harmless =
      pipeline.lookahead == Lookahead::kNone || pipeline.lookahead == Lookahead::kNesterov;
  for (const std::string_view path :
       {"pipeline.lookahead", "pipeline.refresh", "pipeline.horizon"}) {
    if (!loaded.is_given(path) || (path == "pipeline.lookahead" && harmless)) continue;
    return usage_error(
        fmt::format("{} does not go with {}, where no gradient is late: leave {} out, or choose "
                    "\"async\"",
                    named(loaded, path), named(loaded, "pipeline.schedule"), path));
  }
  if (loaded.recipe.optimizer.clip_stages == StageClip::kWhole)
    return usage_error(
        fmt::format("{} does not go with {}, which clips by the norm of the whole model: leave it "
                    "out",
                    named(loaded, "optimizer.clip_stages"), named(loaded, "pipeline.schedule")));
  return {};
}

// Fitting to longer delays takes minutes, and nothing was ever trained with them.
constexpr int64_t kMatchedDelayMax = 10'000;

Status check_lookahead(const LoadedRecipe& loaded) {
  const OptimizerOptions& optimizer = loaded.recipe.optimizer;
  const Lookahead lookahead = loaded.recipe.pipeline.lookahead;
  const bool nesterov = lookahead == Lookahead::kNesterov;
  const bool predicts = lookahead == Lookahead::kMatched || lookahead == Lookahead::kPredict;
  if (optimizer.name == UpdateRule::kNAdamW && !nesterov)
    return usage_error(
        fmt::format("{} does not go with {}: nadamw implies the look-ahead nesterov; choose "
                    "optimizer.name = \"adamw\" for another one",
                    named(loaded, "pipeline.lookahead"), named(loaded, "optimizer.name")));
  const PipelineOptions& pipeline = loaded.recipe.pipeline;
  const int64_t late =
      (loaded.recipe.mesh.stages - 1) * (1 + pipeline.extra_per_hop) / pipeline.update_every;
  if (lookahead == Lookahead::kMatched && late > kMatchedDelayMax)
    return usage_error(fmt::format(
        "{} is for gradients that are up to {} updates late, and here they would be {}: raise "
        "pipeline.update_every ({}), or choose another look-ahead",
        named(loaded, "pipeline.lookahead"), kMatchedDelayMax, late, pipeline.update_every));
  if (nesterov && !optimizer.nesterov)
    return usage_error(fmt::format("{} does not go with {}: leave optimizer.nesterov out",
                                   named(loaded, "pipeline.lookahead"),
                                   named(loaded, "optimizer.nesterov")));
  if (loaded.is_given("pipeline.horizon") && !predicts)
    return usage_error(
        fmt::format("{} does not go with {}, which predicts nothing: leave pipeline.horizon out, "
                    "or choose \"predict\" or \"matched\"",
                    named(loaded, "pipeline.horizon"), named(loaded, "pipeline.lookahead")));
  return {};
}

Status check_tentative(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const Lookahead lookahead = recipe.pipeline.lookahead;
  const int64_t depth = (recipe.mesh.stages - 1) * (1 + recipe.pipeline.extra_per_hop);
  if (lookahead == Lookahead::kTentative && recipe.pipeline.update_every <= depth)
    return usage_error(fmt::format(
        "{} does not go with {}: with {} microbatches in flight some late forwards start before "
        "any gradient of the update is known; choose \"matched\", or pipeline.update_every = {} or "
        "more",
        named(loaded, "pipeline.lookahead"), named(loaded, "pipeline.update_every"), depth + 1,
        depth + 1));
  if (loaded.is_given("pipeline.refresh") && lookahead != Lookahead::kTentative)
    return usage_error(
        fmt::format("{} does not go with {}: leave pipeline.refresh out, or choose \"tentative\"",
                    named(loaded, "pipeline.refresh"), named(loaded, "pipeline.lookahead")));
  if (!loaded.is_given("optimizer.gradient_share")) return {};
  if (lookahead == Lookahead::kMatched || lookahead == Lookahead::kNesterov)
    return usage_error(fmt::format(
        "{} does not go with {}, which sets its own: leave optimizer.gradient_share out",
        named(loaded, "optimizer.gradient_share"), named(loaded, "pipeline.lookahead")));
  return {};
}

// "15 or 20": the nearest batch sizes that can be split into K microbatches.
std::string multiples_near(int64_t batch, int64_t update_every) {
  const int64_t below = batch / update_every * update_every;
  const std::string above = fmt::format("{}", below + update_every);
  return below == 0 ? above : fmt::format("{} or {}", below, above);
}

// Shows how update_every was computed if the user did not give it.
std::string named_update_every(const LoadedRecipe& loaded) {
  if (loaded.is_given("pipeline.update_every")) return named(loaded, "pipeline.update_every");
  const Recipe& recipe = loaded.recipe;
  return fmt::format("pipeline.update_every = {} (automatic: ({} - 1)(1 + {}) + 1 for {} and {})",
                     recipe.pipeline.update_every, recipe.mesh.stages,
                     recipe.pipeline.extra_per_hop, named(loaded, "mesh.stages"),
                     named(loaded, "pipeline.extra_per_hop"));
}

Status check_mesh(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  if (recipe.model.layers < recipe.mesh.stages)
    return usage_error(fmt::format("{} is less than {}: every stage needs a layer",
                                   named(loaded, "model.layers"), named(loaded, "mesh.stages")));
  const int64_t update_every = recipe.pipeline.update_every;
  if (recipe.data.batch % update_every != 0)
    return usage_error(fmt::format(
        "{} is not a multiple of {}: set data.batch to {}, or change pipeline.update_every",
        named(loaded, "data.batch"), named_update_every(loaded),
        multiples_near(recipe.data.batch, update_every)));
  if (!recipe.pipeline.stash && !recipe.pipeline.recompute)
    return usage_error(
        fmt::format("{} does not go with {}: a backward needs the weights of its forward, or must "
                    "repeat the forward; set pipeline.recompute = true",
                    named(loaded, "pipeline.stash"), named(loaded, "pipeline.recompute")));
  if (!recipe.pipeline.stash && recipe.pipeline.stash_on == StashPlace::kHost)
    return usage_error(
        fmt::format("{} does not go with {}: nothing is stashed; leave "
                    "pipeline.stash_on out, or set pipeline.stash = true",
                    named(loaded, "pipeline.stash_on"), named(loaded, "pipeline.stash")));
  return {};
}

}  // namespace

bool speeds_fit(const Recipe& recipe) {
  const auto speeds = static_cast<int64_t>(recipe.sim.speeds.size());
  const int64_t stages = recipe.mesh.stages;
  return speeds == 0 || speeds == stages || speeds == stages * recipe.mesh.replicas;
}

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
  LEEWAY_TRY(check_faults(loaded));
  LEEWAY_TRY(check_optimizer(loaded));
  LEEWAY_TRY(check_moments(loaded));
  LEEWAY_TRY(check_flushed(loaded));
  LEEWAY_TRY(check_lookahead(loaded));
  LEEWAY_TRY(check_tentative(loaded));
  LEEWAY_TRY(check_mesh(loaded));
  LEEWAY_TRY(check_averaging(loaded));
  LEEWAY_TRY(check_sim(loaded));
  return {};
}

}  // namespace leeway
