#include "config/keys.h"

#include <gtest/gtest.h>

#include <set>

#include "config/words.h"
#include "config_testing.h"

namespace leeway {
namespace {

TEST(Words, GoBothWays) {
  EXPECT_EQ(word_of(Precision::kFp32), "fp32");
  EXPECT_EQ(word_of(Precision::kBf16), "bf16");
  EXPECT_EQ(word_of(Precision::kFp64), "fp64");
  EXPECT_EQ(word_of(Architecture::kLlama), "llama");
  EXPECT_EQ(word_of(Architecture::kGpt2), "gpt2");
  EXPECT_EQ(word_of(Activation::kSwiglu), "swiglu");
  EXPECT_EQ(word_of(Activation::kGelu), "gelu");
  EXPECT_EQ(word_of(Activation::kRelu), "relu");
  EXPECT_EQ(word_of(UpdateRule::kMuon), "muon");
  EXPECT_EQ(word_of(UpdateRule::kAdamW), "adamw");
  EXPECT_EQ(word_of(UpdateRule::kNAdamW), "nadamw");
  EXPECT_EQ(word_of(UpdateRule::kSgd), "sgd");
  EXPECT_EQ(word_of(RateSchedule::kCosine), "cosine");
  EXPECT_EQ(word_of(RateSchedule::kLinear), "linear");
  EXPECT_EQ(word_of(RateSchedule::kConstant), "constant");
  EXPECT_EQ(word_of(RateSchedule::kWsd), "wsd");
  EXPECT_EQ(word_of(DriverName::kThreads), "threads");
  EXPECT_EQ(word_of(DriverName::kSim), "sim");
  EXPECT_EQ(word_of(DriverName::kZmq), "zmq");
  EXPECT_EQ(word_of(DriverName::kMpi), "mpi");
  EXPECT_EQ(word_of(PipelineSchedule::kAsync), "async");
  EXPECT_EQ(word_of(PipelineSchedule::k1f1b), "1f1b");
  EXPECT_EQ(word_of(PipelineSchedule::kGpipe), "gpipe");
  EXPECT_EQ(word_of(Lookahead::kTentative), "tentative");
  EXPECT_EQ(word_of(Lookahead::kMatched), "matched");
  EXPECT_EQ(word_of(Lookahead::kPredict), "predict");
  EXPECT_EQ(word_of(Lookahead::kNesterov), "nesterov");
  EXPECT_EQ(word_of(Lookahead::kNone), "none");
  EXPECT_EQ(word_of(AveragingMethod::kSparse), "sparse");
  EXPECT_EQ(word_of(AveragingMethod::kLowbit), "lowbit");
  EXPECT_EQ(word_of(AveragingMethod::kAllreduce), "allreduce");
  EXPECT_EQ(word_of(AveragingMethod::kWeights), "weights");
  EXPECT_EQ(word_of(AveragingMethod::kDiloco), "diloco");
  EXPECT_EQ(word_of(AveragingMethod::kNone), "none");
  EXPECT_EQ(word_of(Correction::kNone), "none");
  EXPECT_EQ(word_of(Correction::kDelta), "delta");
  EXPECT_EQ(word_of(Correction::kEma), "ema");
  EXPECT_EQ(word_of(MergePolicy::kOnArrival), "on_arrival");
  EXPECT_EQ(word_of(MergePolicy::kFixedLag), "fixed_lag");
  EXPECT_EQ(word_of(WireFormat::kF32), "f32");
  EXPECT_EQ(word_of(WireFormat::kBf16), "bf16");
  EXPECT_EQ(word_of(WireFormat::kInt8), "int8");
  EXPECT_EQ(word_of(WireFormat::kInt8Stochastic), "int8_stochastic");
  EXPECT_EQ(word_of(WireFormat::kTernary), "ternary");
  EXPECT_EQ(enum_of<UpdateRule>("nadamw"), UpdateRule::kNAdamW);
  EXPECT_EQ(enum_of<UpdateRule>("adam"), std::nullopt);
}

TEST(Keys, AreUniqueAndInKnownTablesAndHaveHelp) {
  std::set<std::string_view> table_names;
  for (const Table& table : tables()) table_names.insert(table.name);
  std::set<std::string_view> paths;
  for (const Key& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path << " is listed twice";
    EXPECT_TRUE(table_names.contains(key.table())) << key.path;
    EXPECT_TRUE(key.help.ends_with('.')) << key.path << ": help is a sentence";
    EXPECT_EQ(find_key(key.path), &key);
  }
  EXPECT_EQ(find_key("model.widht"), nullptr);
  EXPECT_EQ(find_key("width"), nullptr);
}

// Fails if two rows point to one field: the second would overwrite the first.
TEST(Keys, EachHasItsOwnField) {
  const LoadedRecipe start = loaded_from("");
  for (const Key& key : keys()) {
    Recipe recipe = start.recipe;
    const std::vector<Value> candidates = {
        int64_t{3},  0.3,    true,         false,     "cuda",
        "hf:x",      "bf16", "gpt2",       "relu",    "constant",
        "sgd",       "sim",  "1f1b",       "predict", std::vector<double>{0.5},
        "lowbit",    "ema",  "on_arrival", "updates", int64_t{30},
        "tcp://a:1", "host", "mean",       "whole"};
    for (const Value& value : candidates) {
      if (assign(key, value, recipe) && recipe != start.recipe) break;
    }
    ASSERT_NE(recipe, start.recipe) << key.path << ": no candidate changed it";
    for (const Key& other : keys()) {
      const bool changed = value_of(other, recipe) != value_of(other, start.recipe);
      EXPECT_EQ(changed, other.path == key.path) << key.path << " and " << other.path;
    }
  }
}

TEST(Keys, AllowTheirOwnDefaults) {
  const Recipe resolved = loaded_from("").recipe;
  for (const Key& key : keys()) {
    Recipe recipe = resolved;
    EXPECT_TRUE(assign(key, value_of(key, resolved), recipe)) << key.path;
    EXPECT_EQ(recipe, resolved) << key.path;
  }
}

TEST(Keys, SayWhatTheyAllow) {
  const auto allowed = [](std::string_view path) { return allowed_text(*find_key(path)); };
  EXPECT_EQ(allowed("model.layers"), "a whole number from 1 to 4096");
  EXPECT_EQ(allowed("run.seed"), "a whole number from 0");
  EXPECT_EQ(allowed("model.kv_heads"), "a whole number from 1 to 4096, or \"auto\"");
  EXPECT_EQ(allowed("data.valid_share"), "a number from 0, at most 0.5");
  EXPECT_EQ(allowed("optimizer.rate"), "a number above 0, at most 100");
  EXPECT_EQ(allowed("optimizer.final"), "a number from 0, at most 1");
  EXPECT_EQ(allowed("optimizer.nesterov"), "true or false, or \"auto\"");
  EXPECT_EQ(allowed("optimizer.name"), "\"muon\", \"adamw\", \"nadamw\" or \"sgd\"");
  EXPECT_EQ(allowed("run.device"), "\"auto\", \"cpu\", \"cuda\" or \"cuda:N\"");
  EXPECT_EQ(allowed("data.train"), "a string or a list of strings, none empty");
  EXPECT_EQ(allowed("mesh.replicas"), "a whole number from 1 to 256");
  EXPECT_EQ(allowed("averaging.fraction"), "a number from 1e-06, at most 1, or \"auto\"");
  EXPECT_EQ(allowed("averaging.merge"), "\"on_arrival\" or \"fixed_lag\", or \"auto\"");
  EXPECT_EQ(allowed("network.listen"),
            "\"tcp://HOST:PORT\", HOST a name, an address or *, PORT 0 for any free one");
  EXPECT_EQ(allowed("sim.speeds"), "a list of numbers, each above 0, at most 1000000");
}

// An automatic number below its range reads and writes as the word "auto".
TEST(Keys, KeepAutoIfNoOtherKeyDecides) {
  const Key& horizon = *find_key("pipeline.horizon");
  Recipe recipe;
  EXPECT_EQ(value_of(horizon, recipe), Value("auto"));
  EXPECT_TRUE(assign(horizon, 0.5, recipe));
  EXPECT_EQ(value_of(horizon, recipe), Value(0.5));
  EXPECT_TRUE(assign(horizon, "auto", recipe));
  EXPECT_EQ(recipe, Recipe{});
  EXPECT_FALSE(assign(horizon, -1.0, recipe));
}

struct Case {
  std::string_view path;
  Value value;
  bool good;
};

class KeyTakes : public testing::TestWithParam<Case> {};

TEST_P(KeyTakes, WhatItsRowSays) {
  const auto& [path, value, good] = GetParam();
  const Recipe before = loaded_from("").recipe;
  Recipe recipe = before;
  EXPECT_EQ(assign(*find_key(path), value, recipe), good) << path << " = " << toml_text(value);
  EXPECT_TRUE(good || recipe == before) << "a rejected value changed the recipe";
}

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Ends, KeyTakes,
    testing::Values(
        Case{"model.layers", int64_t{1}, true}, Case{"model.layers", int64_t{0}, false},
        Case{"model.layers", int64_t{4096}, true}, Case{"model.layers", int64_t{4097}, false},
        Case{"model.layers", 2.0, false}, Case{"model.layers", "2", false},
        Case{"run.seed", int64_t{INT64_MAX}, true}, Case{"run.seed", int64_t{-1}, false},
        Case{"data.valid_share", 0.0, true}, Case{"data.valid_share", 0.51, false},
        Case{"data.valid_share", 0.5, true}, Case{"data.valid_share", int64_t{0}, true},
        Case{"data.valid_share", -0.1, false}, Case{"optimizer.rate", 0.0, false},
        Case{"optimizer.rate", 100.0, true}, Case{"optimizer.rate", 100.1, false},
        Case{"optimizer.rate", kNan, false}, Case{"optimizer.clip", kInfinity, false},
        Case{"optimizer.final", 0.0, true}, Case{"optimizer.final", 1.0, true},
        Case{"optimizer.rate", true, false}, Case{"pipeline.horizon", 0.0, true},
        Case{"pipeline.horizon", 10.0, true}, Case{"pipeline.horizon", -0.1, false},
        Case{"pipeline.horizon", kNan, false}, Case{"pipeline.extra_per_hop", int64_t{1000}, true},
        Case{"pipeline.extra_per_hop", int64_t{1001}, false},
        Case{"pipeline.extra_per_hop", int64_t{-1}, false}, Case{"sim.flops", 0.0, false},
        Case{"sim.latency_ms", -1.0, false}, Case{"optimizer.nesterov", int64_t{1}, false},
        Case{"optimizer.nesterov", false, true}));

const Case kAveraging[] = {{"mesh.replicas", int64_t{0}, false},
                           {"mesh.replicas", int64_t{256}, true},
                           {"mesh.replicas", int64_t{257}, false},
                           {"averaging.fraction", 0.0, false},
                           {"averaging.fraction", 1.0, true},
                           {"averaging.fraction", 1.01, false},
                           {"averaging.interval", int64_t{0}, false},
                           {"averaging.ema_start", 0.0, true},
                           {"averaging.ema_start", 1.0, false},
                           {"averaging.ema_end", 1.0, false},
                           {"averaging.outer_rate", 0.0, false},
                           {"averaging.outer_rate", 10.0, true},
                           {"averaging.outer_rate", 10.1, false},
                           {"averaging.outer_momentum", 0.0, true},
                           {"averaging.outer_momentum", 1.0, false},
                           {"averaging.lag", 0.0, true},
                           {"averaging.lag", 1e6, true},
                           {"averaging.lag", -0.5, false},
                           {"averaging.lag", 1e6 + 1, false},
                           {"averaging.deadline_ms", "auto", true},
                           {"averaging.deadline_ms", -1.0, false},
                           {"averaging.deadline_ms", 0.0, false},
                           {"averaging.deadline_ms", 1e7, true},
                           {"averaging.deadline_ms", 1.1e7, false},
                           {"averaging.granularity", int64_t{0}, false},
                           {"averaging.granularity", int64_t{1'000'000}, true},
                           {"averaging.granularity", int64_t{1'000'001}, false},
                           {"averaging.smoothing", 0.0, true},
                           {"averaging.smoothing", 1.0, false},
                           {"averaging.gain", 0.0, true},
                           {"averaging.gain", 10.0, true},
                           {"averaging.gain", 10.1, false},
                           {"averaging.gain_smoothing", 1.0, false},
                           {"averaging.method", "sparta", false},
                           {"averaging.merge", "replay", false},
                           {"averaging.wire", "fp32", false},
                           {"averaging.guard", "auto", false}};
INSTANTIATE_TEST_SUITE_P(Averaging, KeyTakes, testing::ValuesIn(kAveraging));

INSTANTIATE_TEST_SUITE_P(
    Texts, KeyTakes,
    testing::Values(
        Case{"run.device", "cuda:12", true}, Case{"run.device", "cuda:", false},
        Case{"run.device", "cuda:1x", false}, Case{"run.device", "cuda:1234", false},
        Case{"run.device", "gpu", false}, Case{"data.tokenizer", "gpt2:d", true},
        Case{"data.tokenizer", "gpt2:", false}, Case{"data.tokenizer", "sentencepiece:m", true},
        Case{"data.tokenizer", "words", false}, Case{"data.valid", "one", true},
        Case{"data.valid", std::vector<std::string>{"a", "b"}, true},
        Case{"data.valid", std::vector<std::string>{}, true}, Case{"data.valid", "", false},
        Case{"data.valid", std::vector<std::string>{"a", ""}, false},
        Case{"data.valid", Foreign{"a table"}, false}, Case{"data.valid", int64_t{3}, false},
        Case{"model.architecture", "Llama", false}, Case{"model.architecture", "gpt2", true},
        Case{"pipeline.schedule", "1f1b", true}, Case{"pipeline.schedule", "1F1B", false},
        Case{"pipeline.schedule", "auto", false}, Case{"pipeline.lookahead", "auto", true},
        Case{"sim.speeds", std::vector<double>{1, 0.5}, true},
        Case{"sim.speeds", std::vector<double>{1, 0}, false},
        Case{"sim.speeds", std::vector<double>{kNan}, false},
        Case{"sim.speeds", std::vector<double>{2e6}, false},
        Case{"sim.speeds", std::vector<double>{}, true},
        Case{"sim.speeds", std::vector<std::string>{}, true},  // [] is read as this
        Case{"sim.speeds", std::vector<std::string>{"1"}, false}, Case{"sim.speeds", 1.0, false},
        Case{"data.valid", std::vector<double>{1}, false}));

}  // namespace
}  // namespace leeway
