// How a stage handles late gradients: forwards ahead of the weights, with or without a stash.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "pipeline/stage.h"
#include "token_batches.h"

namespace leeway {
namespace {

ModelShape tiny() {
  return {.architecture = Architecture::kGpt2,
          .activation = Activation::kGelu,
          .bias = true,
          .layers = 2,
          .width = 8,
          .heads = 2,
          .kv_heads = 2,
          .hidden = 9,
          .context = 5,
          .vocabulary = 11};
}

StageOptions options() {
  at::set_num_threads(1);
  // Some CPUs advertise matrix units that may not be used; oneDNN then crashes on bf16 products.
  setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*replace=*/0);
  StageOptions options;
  options.shape = tiny();
  options.slice = whole_model(tiny());
  options.update.rule = UpdateRule::kAdamW;
  options.update.rate = 0.05;
  options.master = at::kDouble;
  options.compute = at::kDouble;
  return options;
}

void forward(Stage& stage, int64_t m, int64_t delay, int64_t guess) {
  stage.forward_to_head({m}, {.delay = delay, .guess = guess}, tokens(m), tokens(m + 50));
}
// Ahead by the horizon, if there is one.
void forward(Stage& stage, int64_t m, int64_t delay) {
  forward(stage, m, delay, stage.last_update().defined() ? delay : 0);
}

// The gradient of microbatch m at these weights, from scratch.
at::Tensor gradient_at(const at::Tensor& weights, int64_t m) {
  Stage stage(options());
  stage.load_weights(weights);
  forward(stage, m, 0);
  stage.backward_from_loss({m});
  return stage.gradients().clone();
}

// Two updates: then there is a last update to look ahead with.
void begin(Stage& stage) {
  for (const int64_t m : {0, 1}) {
    forward(stage, m, 0);
    stage.backward_from_loss({m});
    stage.update(1.0, 1.0);
  }
}

TEST(LookAhead, LateForwardsRunAheadOfTheWeightsByTheLastUpdate) {
  StageOptions ahead = options();
  ahead.horizon = 0.5;
  Stage stage(ahead);
  forward(stage, 0, 0);
  stage.backward_from_loss({0});
  const at::Tensor before = stage.weights().clone();
  stage.update(1.0, 1.0);
  const at::Tensor now = stage.weights().clone();
  EXPECT_TRUE(at::allclose(stage.last_update(), now - before, 0, 1e-15));
  forward(stage, 1, /*delay=*/3);
  stage.backward_from_loss({1});
  const at::Tensor guessed = now + 0.5 * 3 * (now - before);
  EXPECT_TRUE(at::allclose(stage.gradients(), gradient_at(guessed, 1), 1e-10, 1e-12));
  EXPECT_FALSE(at::allclose(stage.gradients(), gradient_at(now, 1), 1e-4, 1e-6));
  EXPECT_TRUE(at::equal(stage.weights(), now));  // the gradient is applied to w itself
}

TEST(LookAhead, WithoutLateForwardsChangesNothing) {
  StageOptions ahead = options();
  ahead.horizon = 1;
  Stage with(ahead), without(options());
  begin(with);
  begin(without);
  EXPECT_TRUE(at::equal(with.weights(), without.weights()));
}

TEST(LookAhead, TheFirstUpdateHasNothingToExtrapolate) {
  StageOptions ahead = options();
  ahead.horizon = 1;
  Stage stage(ahead);
  const at::Tensor weights = stage.weights().clone();
  forward(stage, 0, /*delay=*/1);
  stage.backward_from_loss({0});
  EXPECT_TRUE(at::equal(stage.gradients(), gradient_at(weights, 0)));
}

TEST(LookAhead, AnEvaluationSeesTheWeightsThemselves) {
  StageOptions ahead = options();
  ahead.horizon = 1;
  Stage stage(ahead);
  begin(stage);
  forward(stage, 2, /*delay=*/1);
  const auto held = stage.hold_copy(stage.weights());
  EXPECT_TRUE(at::equal(held->views.flat, stage.weights()));
  const at::Tensor then = stage.weights().clone();
  stage.backward_from_loss({2});
  stage.update(1.0, 1.0);
  EXPECT_TRUE(at::equal(held->views.flat, then)) << "a held version was written";
}

TEST(TentativeGuess, IsWhatAnUpdateWithTheGradientsSoFarWouldProduce) {
  for (const UpdateRule rule : {UpdateRule::kAdamW, UpdateRule::kMuon, UpdateRule::kSgd}) {
    StageOptions tentative = options();
    tentative.update.rule = rule;
    tentative.update.decay = 0.1;
    Stage stage(tentative);
    begin(stage);
    stage.forward_to_head({2}, {}, tokens(2), tokens(52), 0.5);  // one of two microbatches
    stage.backward_from_loss({2});
    const at::Tensor before = stage.weights().clone();
    stage.make_guess(1, 0.7, 2.0);
    EXPECT_TRUE(at::equal(stage.weights(), before));
    EXPECT_EQ(stage.updates_done(), UpdateId{2});
    forward(stage, 3, 1, /*guess=*/1);
    stage.update(0.7, 2.0);  // the same gradients: now the guess has come true
    stage.backward_from_loss({3});
    const at::Tensor late = stage.gradients().clone();
    Stage fresh(tentative);
    fresh.load_weights(stage.weights());
    forward(fresh, 3, 0);
    fresh.backward_from_loss({3});
    EXPECT_TRUE(at::equal(late, fresh.gradients()));
    EXPECT_FALSE(stage.has_guess(1)) << "a guess ends with the update";
  }
}

TEST(LookAhead, VersionsInUseAreCounted) {
  StageOptions ahead = options();
  ahead.horizon = 1;
  Stage stage(ahead);
  begin(stage);
  EXPECT_EQ(stage.versions_peak(), 1);
  forward(stage, 2, 0);
  forward(stage, 3, 1);  // two microbatches on the same weights
  EXPECT_EQ(stage.versions_peak(), 2);
  stage.backward_from_loss({2});
  stage.update(1.0, 1.0);
  forward(stage, 4, 1);  // the one of microbatch 3 and the newest
  EXPECT_EQ(stage.versions_peak(), 2);
  EXPECT_EQ(stage.version_bytes(), stage.weights().numel() * 8);
}

double error_of(const PredictionSample& sample) {
  return prediction_error(sample.distances[0].item<double>(), sample.distances[1].item<double>());
}

TEST(PredictionError, ComparesTheGuessWithWhereTheWeightsWent) {
  for (const double horizon : {0.0, 1.0}) {
    StageOptions ahead = options();
    ahead.horizon = horizon;
    Stage stage(ahead);
    begin(stage);
    const at::Tensor start = stage.weights().clone();
    const at::Tensor shift = horizon > 0 ? stage.last_update().clone() : at::zeros_like(start);
    stage.watch_prediction();
    forward(stage, 2, 0);
    forward(stage, 3, 1);  // late: this one is sampled
    stage.backward_from_loss({2});
    stage.update(1.0, 1.0);
    EXPECT_FALSE(stage.take_prediction().has_value());
    const at::Tensor met = stage.weights().clone();
    stage.backward_from_loss({3});
    stage.update(1.0, 1.0);
    const auto prediction = stage.take_prediction();
    ASSERT_TRUE(prediction.has_value());
    const double expected = ((start + shift - met).norm() / (start - met).norm()).item<double>();
    const double error = error_of(*prediction);
    EXPECT_NEAR(error, expected, 1e-12);
    EXPECT_EQ(prediction->delay, 1);
    EXPECT_EQ(prediction->update, UpdateId{3});
    if (horizon == 0) {
      EXPECT_EQ(error, 1.0);
    }
    EXPECT_FALSE(stage.take_prediction().has_value());
  }
}

TEST(PredictionError, WithoutLookAheadIsOneInEveryPrecision) {
  StageOptions half = options();
  half.master = at::kFloat;
  half.compute = at::kBFloat16;
  Stage stage(half);
  stage.watch_prediction();
  forward(stage, 0, 0);
  forward(stage, 1, 1);
  for (const int64_t m : {0, 1}) {
    stage.backward_from_loss({m});
    stage.update(1.0, 1.0);
  }
  EXPECT_EQ(error_of(stage.take_prediction().value()), 1.0);
}

TEST(Recompute, GivesTheGradientsOfTheStashBitForBit) {
  StageOptions saving = options(), repeating = options();
  repeating.recompute = true;
  Stage kept(saving), repeated(repeating);
  for (Stage* stage : {&kept, &repeated}) {
    begin(*stage);
    forward(*stage, 2, 1);
    forward(*stage, 3, 1);
    stage->backward_from_loss({2});
    stage->update(1.0, 1.0);
    stage->backward_from_loss({3});  // on the weights before the update
  }
  EXPECT_TRUE(at::equal(kept.gradients(), repeated.gradients()));
}

TEST(Recompute, WithoutAStashUsesTheNewestWeightsAndKeepsNoOthers) {
  StageOptions without = options();
  without.recompute = true;
  without.stash = false;
  Stage stage(without);
  begin(stage);
  forward(stage, 2, 1);
  forward(stage, 3, 1);
  stage.backward_from_loss({2});
  stage.update(1.0, 1.0);
  stage.backward_from_loss({3});
  EXPECT_TRUE(at::allclose(stage.gradients(), gradient_at(stage.weights(), 3), 1e-12, 1e-14));
  EXPECT_EQ(stage.versions_peak(), 1);
  EXPECT_EQ(stage.version_count(), 1);
}

}  // namespace
}  // namespace leeway
