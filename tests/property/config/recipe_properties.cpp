// With random recipes and random bytes: what is printed parses back, and nothing crashes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "config/averaging_rules.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/print.h"
#include "config/toml_reader.h"
#include "config/words.h"

namespace leeway {
namespace {

template <class Enum>
Enum any_of() {
  return static_cast<Enum>(*rc::gen::inRange(0, static_cast<int>(kWords<Enum>.size())));
}

int64_t between(int64_t min, int64_t max) { return *rc::gen::inRange<int64_t>(min, max + 1); }

// In [0, 1), using all the bits of a double.
double share() { return static_cast<double>(between(0, (1LL << 53) - 1)) * 0x1p-53; }

std::string utf8(uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

// Any non-empty Unicode text, including quotes, control characters and line breaks.
std::string any_text() {
  std::string text = utf8(static_cast<uint32_t>(between(0, 0x7f)));
  const int64_t more = between(0, 8);
  for (int64_t count = 0; count < more; ++count) {
    const auto code = static_cast<uint32_t>(between(0, *rc::gen::element(0x7f, 0xff, 0x10ffff)));
    if (code < 0xd800 || code > 0xdfff) text += utf8(code);
  }
  return text;
}

std::vector<std::string> any_list(int64_t count_min) {
  std::vector<std::string> list(static_cast<size_t>(between(count_min, 3)));
  for (std::string& text : list) text = any_text();
  return list;
}

ModelOptions any_model() {
  ModelOptions model;
  model.architecture = any_of<Architecture>();
  const bool llama = model.architecture == Architecture::kLlama;
  model.layers = between(1, 48);
  model.kv_heads = between(1, 8);
  model.heads = llama ? model.kv_heads * between(1, 4) : model.kv_heads;
  model.width = model.heads * (llama ? 2 : 1) * between(1, 64);
  model.hidden = between(1, 4096);
  model.context = between(1, 4096);
  model.activation =
      llama ? Activation::kSwiglu : *rc::gen::element(Activation::kGelu, Activation::kRelu);
  model.bias = !llama && *rc::gen::arbitrary<bool>();
  return model;
}

OptimizerOptions any_optimizer() {
  OptimizerOptions optimizer;
  optimizer.name = any_of<UpdateRule>();
  optimizer.rate = 100.0 * (1.0 - share());
  optimizer.matrix_rate = 1e-9 * (1.0 - share());
  optimizer.beta1 = share();
  optimizer.beta2 = share();
  optimizer.epsilon = 1.0 - share();
  optimizer.decay = share();
  optimizer.clip = 1e9 * share();
  const bool choice = *rc::gen::arbitrary<bool>();
  optimizer.nesterov =
      optimizer.name == UpdateRule::kNAdamW || (optimizer.name != UpdateRule::kAdamW && choice);
  optimizer.schedule = any_of<RateSchedule>();
  optimizer.final = share();
  return optimizer;
}

// Keys that only some look-aheads take are "auto" for the others, as resolve() leaves them.
void draw_lookahead(Recipe& recipe) {
  OptimizerOptions& optimizer = recipe.optimizer;
  PipelineOptions& pipeline = recipe.pipeline;
  const bool nadamw = optimizer.name == UpdateRule::kNAdamW;
  const bool async = pipeline.schedule == PipelineSchedule::kAsync;
  pipeline.lookahead = nadamw  ? Lookahead::kNesterov
                       : async ? any_of<Lookahead>()
                               : *rc::gen::element(Lookahead::kNone, Lookahead::kNesterov);
  const bool some = *rc::gen::arbitrary<bool>();
  switch (pipeline.lookahead) {
    case Lookahead::kTentative:
      pipeline.extra_per_hop = 0;
      pipeline.update_every = recipe.mesh.stages + between(0, 16);
      pipeline.refresh = between(1, 1000);
      optimizer.gradient_share = share();
      return;
    case Lookahead::kMatched:
      if (some) pipeline.horizon = 10 * share();
      return;
    case Lookahead::kPredict:
      pipeline.horizon = 10 * share();
      break;
    case Lookahead::kNesterov:
      optimizer.nesterov = true;
      return;
    case Lookahead::kNone:
      break;
  }
  if (some) optimizer.gradient_share = share();
}

PipelineOptions any_pipeline() {
  PipelineOptions pipeline;
  pipeline.schedule = any_of<PipelineSchedule>();
  pipeline.update_every = between(1, 64);
  pipeline.extra_per_hop = between(0, 1000);
  pipeline.wire = any_of<PipelineWire>();
  pipeline.recompute = *rc::gen::arbitrary<bool>();
  pipeline.stash = !pipeline.recompute || *rc::gen::arbitrary<bool>();
  return pipeline;
}

SimOptions any_sim(int64_t stages) {
  SimOptions sim;
  sim.flops = 1e24 * (1.0 - share());
  sim.latency_ms = 1e6 * share();
  sim.bandwidth_mbit = 1e9 * share();
  sim.jitter_ms = 1e6 * share();
  if (*rc::gen::arbitrary<bool>()) sim.speeds.resize(static_cast<size_t>(stages));
  for (double& speed : sim.speeds) speed = 1e6 * (1.0 - share());
  return sim;
}

NetworkOptions any_network() {
  NetworkOptions network;
  network.listen = *rc::gen::element<std::string>("tcp://*:0", "tcp://[::1]:9000", "tcp://a.b:7");
  network.cap_mbit = 1e9 * share();
  network.heartbeat_ms = between(10, 60'000);
  network.emulate.latency_ms = 1e6 * share();
  network.emulate.bandwidth_mbit = 1e9 * share();
  network.emulate.jitter_ms = 1e6 * share();
  network.emulate.loss = 0.5 * share();
  return network;
}

// Draws the keys that the method uses, after the keys that they depend on.
void draw_averaging(Recipe& recipe) {
  AveragingOptions& averaging = recipe.averaging;
  averaging = averaging_defaults(any_of<AveragingMethod>());
  const int64_t updates = recipe.run.updates;
  const auto used = [&](std::string_view path) { return !idle_averaging(path, averaging); };
  if (used("averaging.fraction"))
    averaging.fraction = *rc::gen::arbitrary<bool>() ? 1.0 : 1.0 - share();
  if (used("averaging.correction")) averaging.correction = any_of<Correction>();
  if (used("averaging.merge")) averaging.merge = any_of<MergePolicy>();
  averaging.interval =
      used("averaging.interval") ? between(1, std::min<int64_t>(updates, 1'000'000'000)) : 1;
  const bool diloco = averaging.method == AveragingMethod::kDiloco;
  const int64_t lag_max = std::min<int64_t>(diloco ? averaging.interval : updates, 1'000'001) - 1;
  if (used("averaging.lag")) averaging.lag = static_cast<double>(between(0, lag_max));
  if (used("averaging.ema_start")) averaging.ema_start = share();
  if (used("averaging.ema_end")) averaging.ema_end = share();
  if (used("averaging.outer_rate")) averaging.outer_rate = 10 * (1.0 - share());
  if (used("averaging.outer_momentum")) averaging.outer_momentum = share();
  if (used("averaging.deadline_ms")) averaging.deadline_ms = 1e7 * (1.0 - share());
  if (used("averaging.granularity")) averaging.granularity = between(1, 1'000'000);
  if (used("averaging.smoothing")) averaging.smoothing = share();
  if (used("averaging.gain")) averaging.gain = 10 * share();
  if (used("averaging.gain_smoothing")) averaging.gain_smoothing = share();
  if (used("averaging.guard")) averaging.guard = *rc::gen::arbitrary<bool>();
  const bool few_bits = averaging.method == AveragingMethod::kLowbit;
  const auto wire = any_of<WireFormat>();
  if (used("averaging.wire") && (few_bits || !has_few_bits(wire))) averaging.wire = wire;
}

// A recipe that passes every check; independent fields are drawn from their whole range.
Recipe any_recipe() {
  Recipe recipe;
  recipe.model = any_model();
  recipe.mesh.stages = between(1, recipe.model.layers);
  recipe.mesh.replicas = between(1, 256);
  recipe.optimizer = any_optimizer();
  recipe.pipeline = any_pipeline();
  draw_lookahead(recipe);
  recipe.sim = any_sim(recipe.mesh.stages);
  recipe.network = any_network();
  recipe.data.batch = recipe.pipeline.update_every * between(1, 64);
  recipe.data.train = any_list(1);
  recipe.data.valid = any_list(0);
  recipe.data.tokenizer = "hf:" + any_text();
  recipe.data.valid_share = 0.5 * share();
  recipe.run.updates = between(1, 1'000'000'000);
  if (*rc::gen::arbitrary<bool>()) {
    const int64_t tokens_per_update =
        recipe.data.batch * recipe.model.context * recipe.mesh.replicas;
    recipe.run.tokens = between(1, 1'000'000'000'000);
    recipe.run.updates = (recipe.run.tokens + tokens_per_update - 1) / tokens_per_update;
  }
  draw_averaging(recipe);
  recipe.run.seed = between(0, INT64_MAX - 1);
  recipe.run.precision = any_of<Precision>();
  recipe.run.driver = any_of<DriverName>();
  const bool cpu =
      recipe.run.precision == Precision::kFp64 || recipe.run.driver == DriverName::kSim;
  recipe.run.device = cpu ? "cpu" : *rc::gen::element<std::string>("cpu", "cuda", "cuda:7");
  recipe.run.threads_per_worker = between(0, 4096);
  recipe.run.evaluate_every = between(0, 1000);
  recipe.run.evaluate_mean_every = between(0, 1000);
  recipe.run.evaluate_windows = between(0, 1000);
  recipe.run.checkpoint_every = between(0, 1000);
  recipe.run.keep = between(1, 1000);
  recipe.run.log = any_of<LogLevel>();
  recipe.optimizer.warmup = between(0, std::min<int64_t>(recipe.run.updates, 1'000'000'000));
  return recipe;
}

RC_GTEST_PROP(PrintedRecipe, ParsesBackToTheSame, ()) {
  const LoadedRecipe loaded{.recipe = any_recipe(), .origins = {}};
  const std::string text = print_recipe(loaded);
  RC_LOG() << text;
  const auto again = parse_recipe(text, "printed.toml", {});
  if (!again.ok()) RC_FAIL(again.error().message);
  RC_ASSERT(again->recipe == loaded.recipe);
  RC_ASSERT(print_recipe({.recipe = again->recipe, .origins = {}}) == text);
}

// Every value of a valid recipe may come from --set instead.
RC_GTEST_PROP(PrintedRecipe, SetsBackToTheSame, ()) {
  const Recipe recipe = any_recipe();
  std::vector<std::string> sets;
  for (const Key& key : keys()) {
    if (key.path == (recipe.run.tokens > 0 ? "run.updates" : "run.tokens")) continue;
    if (idle_averaging(key.path, recipe.averaging)) continue;
    sets.push_back(std::string(key.path) + "=" + toml_text(value_of(key, recipe)));
  }
  const auto again = parse_recipe("", "empty.toml", sets);
  if (!again.ok()) RC_FAIL(again.error().message);
  RC_ASSERT(again->recipe == recipe);
}

// A recipe is valid or gives a one-line error; a valid one prints and parses back.
void must_survive(std::string_view toml, const std::vector<std::string>& sets) {
  const auto loaded = parse_recipe(toml, "random.toml", sets);
  if (!loaded.ok()) {
    RC_ASSERT(loaded.error().kind == ErrorKind::kUsage);
    RC_ASSERT(is_utf8(loaded.error().message));
    RC_ASSERT(loaded.error().message.find('\n') == std::string::npos);
    return;
  }
  const auto again = parse_recipe(print_recipe(*loaded), "printed.toml", {});
  if (!again.ok()) RC_FAIL(again.error().message);
  RC_ASSERT(again->recipe == loaded->recipe);
}

RC_GTEST_PROP(RandomBytes, NeverCrashTheParser, (const std::string& bytes)) {
  must_survive(bytes, {});
}

// Random bytes rarely get past the first line; a valid file with a few changed bytes does.
RC_GTEST_PROP(DamagedRecipe, NeverCrashesTheParser, ()) {
  std::string text = print_recipe({.recipe = any_recipe(), .origins = {}});
  const int64_t changes = between(1, 4);
  for (int64_t count = 0; count < changes; ++count) {
    const auto at = static_cast<size_t>(between(0, static_cast<int64_t>(text.size()) - 1));
    const char byte = *rc::gen::oneOf(
        rc::gen::element('"', '[', ']', '{', '.', '=', '\n', '#', '0'), rc::gen::arbitrary<char>());
    switch (between(0, 2)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text.erase(at, static_cast<size_t>(between(1, 40)));
    }
    if (text.empty()) return;
  }
  must_survive(text, {});
}

RC_GTEST_PROP(RandomSet, NeverCrashes, (const std::string& path, const std::string& value)) {
  const size_t row = static_cast<size_t>(between(0, static_cast<int64_t>(keys().size()) - 1));
  const std::string known(keys()[row].path);
  must_survive("data.train = 'a'", {path + "=" + value});
  must_survive("data.train = 'a'", {known + "=" + value});
  must_survive("data.train = 'a'", {known + path + "=" + value});
}

}  // namespace
}  // namespace leeway
