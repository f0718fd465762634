// [averaging]: what the method decides, and what does not go with it.
#include <gtest/gtest.h>

#include "config/averaging_rules.h"
#include "config/keys.h"
#include "config/words.h"
#include "config_testing.h"

namespace leeway {
namespace {

using Correction = Correction;

AveragingOptions options_of(const std::vector<std::string>& sets) {
  return loaded_from("mesh.replicas = 4", sets).recipe.averaging;
}

TEST(Averaging, MethodFollowsTheReplicas) {
  EXPECT_EQ(loaded_from("").recipe.averaging.method, AveragingMethod::kNone);
  EXPECT_EQ(options_of({}).method, AveragingMethod::kSparse);
  EXPECT_EQ(options_of({"averaging.method=auto"}).method, AveragingMethod::kSparse);
  EXPECT_EQ(options_of({"averaging.method=none"}).method, AveragingMethod::kNone);
  const AveragingOptions alone = loaded_from("averaging.method = 'sparse'").recipe.averaging;
  EXPECT_EQ(alone, averaging_defaults(AveragingMethod::kSparse)) << "kept as given, without effect";
}

TEST(Averaging, SparseHasItsDefaults) {
  const AveragingOptions sparse = options_of({});
  EXPECT_EQ(sparse, AveragingOptions{}) << "recipe.h has the defaults of sparse";
  EXPECT_EQ(sparse.fraction, 0.05);
  EXPECT_EQ(sparse.interval, 1);
  EXPECT_EQ(sparse.correction, Correction::kEma);
  EXPECT_EQ(sparse.ema_start, 0.5);
  EXPECT_EQ(sparse.ema_end, 0.99);
  EXPECT_EQ(sparse.outer_rate, 1);
  EXPECT_EQ(sparse.outer_momentum, 0.5);
  EXPECT_EQ(sparse.merge, MergePolicy::kOnArrival);
  EXPECT_EQ(sparse.lag, 1);
  EXPECT_EQ(sparse.wire, WireFormat::kF32);
  EXPECT_EQ(sparse.gain, 0);
}

TEST(Averaging, LowbitHasItsDefaults) {
  const AveragingOptions lowbit = options_of({"averaging.method=lowbit"});
  EXPECT_EQ(lowbit.fraction, 1);
  EXPECT_EQ(lowbit.interval, 1);
  EXPECT_EQ(lowbit.correction, Correction::kNone);
  EXPECT_EQ(lowbit.outer_rate, 1);
  EXPECT_EQ(lowbit.outer_momentum, 0);
  EXPECT_EQ(lowbit.merge, MergePolicy::kOnArrival);
  EXPECT_EQ(lowbit.lag, 1);
  EXPECT_EQ(lowbit.wire, WireFormat::kTernary);
  EXPECT_EQ(lowbit.smoothing, 0);
  EXPECT_EQ(lowbit.gain, 0);
  EXPECT_EQ(lowbit.gain_smoothing, 0);
}

TEST(Averaging, DilocoHasItsDefaults) {
  const AveragingOptions diloco = options_of({"averaging.method=diloco"});
  EXPECT_EQ(diloco.fraction, 1);
  EXPECT_EQ(diloco.interval, 50);
  EXPECT_EQ(diloco.correction, Correction::kDelta);
  EXPECT_EQ(diloco.outer_rate, 0.7);
  EXPECT_EQ(diloco.outer_momentum, 0.9);
  EXPECT_EQ(diloco.merge, MergePolicy::kFixedLag);
  EXPECT_EQ(diloco.lag, 0);
  EXPECT_EQ(diloco.wire, WireFormat::kF32);
  EXPECT_EQ(diloco.gain, 0);
}

TEST(Averaging, OtherMethodsTakeTheMeanAsItIs) {
  for (const std::string method : {"allreduce", "weights", "none"}) {
    const AveragingOptions options = options_of({"averaging.method=" + method});
    EXPECT_EQ(options.fraction, 1) << method;
    EXPECT_EQ(options.interval, 1) << method;
    EXPECT_EQ(options.correction, Correction::kNone) << method;
    EXPECT_EQ(options.outer_rate, 1) << method;
    EXPECT_EQ(options.outer_momentum, 0) << method;
    EXPECT_EQ(options.merge, MergePolicy::kFixedLag) << method;
    EXPECT_EQ(options.lag, 0) << method;
    EXPECT_EQ(options.wire, WireFormat::kF32) << method;
    EXPECT_EQ(options.smoothing + options.gain + options.gain_smoothing, 0) << method;
  }
}

TEST(Averaging, GivenValuesStay) {
  const AveragingOptions options =
      options_of({"averaging.method=diloco", "averaging.interval=20", "averaging.outer_rate=0.5",
                  "averaging.lag=5", "averaging.wire=bf16", "averaging.correction=ema",
                  "averaging.ema_start=0.25"});
  EXPECT_EQ(options.interval, 20);
  EXPECT_EQ(options.outer_rate, 0.5);
  EXPECT_EQ(options.outer_momentum, 0.9);
  EXPECT_EQ(options.lag, 5);
  EXPECT_EQ(options.wire, WireFormat::kBf16);
  EXPECT_EQ(options.ema_start, 0.25);
}

// A recipe for several replicas must also run with one, or without averaging.
TEST(Averaging, NoneIgnoresGivenValues) {
  const std::string rest =
      "averaging.merge = 'fixed_lag'\naveraging.lag = 5000\naveraging.fraction = 0.5\n"
      "averaging.wire = 'ternary'\naveraging.gain = 3\naveraging.deadline_ms = 5\n";
  const AveragingOptions none = averaging_defaults(AveragingMethod::kNone);
  EXPECT_EQ(loaded_from(rest).recipe.averaging, none);
  const std::string two = "mesh.replicas = 2\naveraging.method = 'none'\n";
  EXPECT_EQ(loaded_from(two + rest).recipe.averaging, none);
}

TEST(Averaging, AutoResetsWhatTheFileSays) {
  const LoadedRecipe loaded =
      loaded_from("mesh.replicas = 2\naveraging.merge = 'fixed_lag'\naveraging.lag = 9",
                  {"averaging.method=allreduce", "averaging.merge=auto", "averaging.lag=auto"});
  EXPECT_EQ(loaded.recipe.averaging, averaging_defaults(AveragingMethod::kAllreduce));
}

struct Misfit {
  std::vector<std::string> sets;
  std::string message;
};

class AveragingMisfit : public testing::TestWithParam<Misfit> {};

TEST_P(AveragingMisfit, IsNamed) {
  EXPECT_EQ(error_of("mesh.replicas = 4", GetParam().sets), GetParam().message);
}

const Misfit kUnused[] = {
    {{"averaging.method=allreduce", "averaging.fraction=0.5"},
     "averaging.fraction = 0.5 (--set) does not go with averaging.method = \"allreduce\" "
     "(--set), which exchanges the gradients of every update and waits for them: leave "
     "averaging.fraction out, or choose \"sparse\""},
    {{"averaging.method=allreduce", "averaging.interval=2"},
     "averaging.interval = 2 (--set) does not go with averaging.method = \"allreduce\" "
     "(--set), which exchanges the gradients of every update and waits for them: leave "
     "averaging.interval out, or choose \"sparse\", \"lowbit\", \"weights\" or \"diloco\""},
    {{"averaging.method=weights", "averaging.correction=delta"},
     "averaging.correction = \"delta\" (--set) does not go with averaging.method = \"weights\" "
     "(--set), which exchanges all weights, takes their mean and waits for it: leave "
     "averaging.correction out, or choose \"sparse\" or \"diloco\""},
    {{"averaging.method=weights", "averaging.lag=1"},
     "averaging.lag = 1.0 (--set) does not go with averaging.method = \"weights\" (--set), which "
     "exchanges all weights, takes their mean and waits for it: leave averaging.lag out, or "
     "choose \"sparse\", \"lowbit\" or \"diloco\""},
    {{"averaging.method=lowbit", "averaging.outer_rate=0.5"},
     "averaging.outer_rate = 0.5 (--set) does not go with averaging.method = \"lowbit\" "
     "(--set), which exchanges all steps: leave averaging.outer_rate out, or choose \"sparse\" "
     "or \"diloco\""},
    {{"averaging.method=diloco", "averaging.fraction=0.5"},
     "averaging.fraction = 0.5 (--set) does not go with averaging.method = \"diloco\" (--set), "
     "which exchanges all weights: leave averaging.fraction out, or choose \"sparse\""},
    {{"averaging.gain=1"},
     "averaging.gain = 1.0 (--set) does not go with averaging.method = \"sparse\" (default), "
     "which exchanges weights: leave averaging.gain out, or choose \"lowbit\""},
    {{"averaging.lag=1"},
     "averaging.lag = 1.0 (--set) does not go with averaging.merge = \"on_arrival\" (default), "
     "which merges as soon as a round is done: leave averaging.lag out, or choose \"fixed_lag\""},
    {{"averaging.merge=fixed_lag", "averaging.deadline_ms=1000"},
     "averaging.deadline_ms = 1000.0 (--set) does not go with averaging.merge = \"fixed_lag\" "
     "(--set), which waits for all replicas: leave averaging.deadline_ms out, or choose "
     "\"on_arrival\""},
    {{"averaging.correction=delta", "averaging.ema_end=0.9"},
     "averaging.ema_end = 0.9 (--set) does not go with averaging.correction = \"delta\" (--set), "
     "which has no running mean: leave averaging.ema_end out, or choose \"ema\""},
    {{"averaging.fraction=1", "averaging.granularity=8"},
     "averaging.granularity = 8 (--set) does not go with averaging.fraction = 1.0 (--set), which "
     "exchanges all weights: leave averaging.granularity out, or choose a smaller fraction"}};
INSTANTIATE_TEST_SUITE_P(Unused, AveragingMisfit, testing::ValuesIn(kUnused));

const Misfit kNumbers[] = {
    {{"averaging.wire=ternary"},
     "averaging.wire = \"ternary\" (--set) does not go with averaging.method = \"sparse\" "
     "(default): only lowbit makes up for what so few bits lose; choose another wire, or "
     "averaging.method = \"lowbit\""},
    {{"averaging.merge=fixed_lag", "averaging.lag=1000"},
     "averaging.lag = 1000.0 (--set) is not less than run.updates = 1000 (default), so no round "
     "would be merged: shorten the lag"},
    {{"averaging.merge=fixed_lag", "averaging.lag=0.5"},
     "averaging.lag = 0.5 (--set) is not a whole number of the microbatches of an update: choose "
     "1, or another pipeline.update_every (1)"},
    {{"averaging.merge=fixed_lag", "averaging.lag=1.3", "mesh.stages=4", "data.batch=8"},
     "averaging.lag = 1.3 (--set) is not a whole number of the microbatches of an update: choose "
     "1.25 or 1.5, or another pipeline.update_every (4)"},
    {{"averaging.merge=fixed_lag", "averaging.lag=12.34", "mesh.stages=2", "data.batch=9",
      "pipeline.update_every=3"},
     "averaging.lag = 12.34 (--set) is not a whole number of the microbatches of an update: choose "
     "12.3333 or 12.6667, or another pipeline.update_every (3)"},
    {{"averaging.merge=fixed_lag", "averaging.lag=2", "run.tokens=16384"},
     "averaging.lag = 2.0 (--set) is not less than the 2 updates of run.tokens = 16384 (--set), so "
     "no round would be merged: shorten the lag"},
    {{"averaging.interval=1001"},
     "averaging.interval = 1001 (--set) is more than run.updates = 1000 (default), so no round "
     "would begin: shorten the interval"},
    {{"averaging.method=diloco", "run.updates=49"},
     "averaging.interval = 50 (default) is more than run.updates = 49 (--set), so no round would "
     "begin: shorten the interval"},
    {{"averaging.method=diloco", "averaging.lag=50"},
     "averaging.interval = 50 (default) is not more than averaging.lag = 50.0 (--set), so rounds "
     "of "
     "diloco would overlap: lengthen the interval, or shorten the lag"}};
INSTANTIATE_TEST_SUITE_P(Numbers, AveragingMisfit, testing::ValuesIn(kNumbers));

// Every key with every method: rejected exactly if the method ignores the key.
TEST(Averaging, EveryMethodRejectsKeysItIgnores) {
  struct Uses {
    std::string key;
    std::string value;
    std::string methods;  // those that take it
  };
  const Uses all[] = {{"fraction", "0.5", "sparse"},
                      {"interval", "7", "sparse lowbit weights diloco"},
                      {"correction", "ema", "sparse diloco"},
                      {"outer_rate", "0.5", "sparse diloco"},
                      {"outer_momentum", "0.5", "sparse diloco"},
                      {"merge", "on_arrival", "sparse lowbit diloco"},
                      {"merge", "fixed_lag", "sparse lowbit diloco"},
                      {"granularity", "8", "sparse"},
                      {"wire", "int8_stochastic", "sparse lowbit allreduce weights diloco"},
                      {"wire", "ternary", "lowbit"},
                      {"smoothing", "0.5", "lowbit"},
                      {"gain", "0.5", "lowbit"},
                      {"gain_smoothing", "0.5", "lowbit"},
                      {"guard", "true", "sparse lowbit allreduce weights diloco"}};
  for (const Uses& uses : all) {
    for (const std::string method : {"sparse", "lowbit", "allreduce", "weights", "diloco"}) {
      const std::vector<std::string> sets = {"averaging.method=" + method,
                                             "averaging." + uses.key + "=" + uses.value};
      const std::string error = error_of("mesh.replicas = 2", sets);
      const bool taken = uses.methods.find(method) != std::string::npos;
      EXPECT_EQ(error == "no error", taken) << method << " " << sets[1] << ": " << error;
    }
  }
}

TEST(Averaging, NamesTheLineOfTheFileAndTheWayOut) {
  const std::string rest = "mesh.replicas = 2\n[averaging]\nlag = 3";
  EXPECT_EQ(error_of(rest),
            "averaging.lag = 3.0 (test.toml:4) does not go with averaging.merge = \"on_arrival\" "
            "(default), which merges as soon as a round is done: leave averaging.lag out (--set "
            "averaging.lag=auto), or choose \"fixed_lag\"");
  loaded_from(rest, {"averaging.lag=auto"});
}

// So that --set can undo keys of a file that another method ignores.
TEST(Averaging, AllKeysThatAMethodMayRejectTakeAuto) {
  for (const Key& key : keys()) {
    for (size_t index = 0; index < kWords<AveragingMethod>.size(); ++index) {
      const AveragingOptions usual = averaging_defaults(static_cast<AveragingMethod>(index));
      if (usual.method == AveragingMethod::kNone || !idle_averaging(key.path, usual)) continue;
      EXPECT_FALSE(key.automatic.empty()) << key.path;
    }
  }
}

TEST(Averaging, ALagIsAWholeNumberOfMicrobatches) {
  const auto backwards = [](double lag, int64_t update_every) {
    Recipe recipe;
    recipe.averaging.lag = lag;
    recipe.pipeline.update_every = update_every;
    return lag_backwards(recipe);
  };
  EXPECT_EQ(backwards(0, 4), 0);
  EXPECT_EQ(backwards(0.5, 4), 2);
  EXPECT_EQ(backwards(10, 8), 80);
  EXPECT_EQ(backwards(0.333, 3), 1) << "a third, with three digits";
  EXPECT_EQ(backwards(2.667, 3), 8);
  EXPECT_EQ(backwards(0.5, 1), std::nullopt);
  EXPECT_EQ(backwards(0.3, 3), std::nullopt);
  EXPECT_EQ(backwards(0.0001, 4), std::nullopt) << "not the lag of 0, which waits";
}

TEST(Averaging, AcceptsValuesThatFit) {
  const std::string fixed = "averaging.merge=fixed_lag", diloco = "averaging.method=diloco";
  options_of({fixed, "averaging.lag=999"});
  options_of({fixed, "averaging.lag=0", "run.updates=1"});
  options_of({fixed, "averaging.lag=0.5", "pipeline.update_every=2", "data.batch=8"});
  options_of({fixed, "averaging.lag=1.333", "pipeline.update_every=3", "data.batch=9"});
  options_of({"run.updates=1"});  // on_arrival has no lag that could be too long
  options_of({"averaging.interval=1000"});
  options_of({"averaging.fraction=0.99", "averaging.granularity=1"});
  options_of({"averaging.ema_start=0", "averaging.ema_end=0.5"});
  options_of({diloco, "averaging.lag=49"});
  options_of({diloco, "averaging.merge=on_arrival", "averaging.deadline_ms=5"});
  options_of({diloco, "averaging.merge=on_arrival", "averaging.interval=1"});
  options_of({"averaging.method=lowbit", fixed, "averaging.lag=10", "averaging.wire=int8"});
  // With one replica there is nothing to average, so no interval is too long.
  loaded_from("", {"averaging.method=diloco", "run.updates=5"});
  loaded_from("", {"averaging.method=sparse", fixed, "averaging.lag=5", "run.updates=5"});
}

}  // namespace
}  // namespace leeway
