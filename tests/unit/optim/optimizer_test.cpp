#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace leeway {
namespace {

const ParameterLayout kTwoElements = {{"head", ParameterKind::kHead, 0, 1, 1},
                                      {"norm", ParameterKind::kVector, 1, 1, 1}};

at::Tensor fp64(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kDouble);
}

double first(const at::Tensor& tensor) { return tensor[0].item<double>(); }
double second(const at::Tensor& tensor) { return tensor[1].item<double>(); }

TEST(Optimizer, AdamWsFirstStepIsTheRate) {
  // Bias-corrected, g / sqrt(g^2) is the gradient's sign; the weight decays, the norm does not.
  Optimizer optimizer({.rule = UpdateRule::kAdamW, .rate = 0.1, .epsilon = 0, .decay = 0.5},
                      kTwoElements, at::kDouble);
  const at::Tensor weights = fp64({2.0, 2.0});
  optimizer.update({.weights = weights, .gradients = fp64({4.0, -0.5}), .compute = {}});
  EXPECT_NEAR(first(weights), 2.0 * (1 - 0.1 * 0.5) - 0.1, 1e-12);
  EXPECT_NEAR(second(weights), 2.0 + 0.1, 1e-12);
  EXPECT_EQ(optimizer.updates_done(), 1);
}

TEST(Optimizer, AdamWsSecondStepByHand) {
  // b1 = b2 = 0.5, gradients 1 then 3: m = 0.5, 1.75; v = 0.5, 4.75; both divided by 0.75.
  Optimizer optimizer(
      {.rule = UpdateRule::kAdamW, .rate = 0.1, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 0.25},
      kTwoElements, at::kDouble);
  const at::Tensor weights = fp64({1.0, 0.0});
  optimizer.update({.weights = weights, .gradients = fp64({1.0, 0.0}), .compute = {}});
  optimizer.update({.weights = weights, .gradients = fp64({3.0, 0.0}), .compute = {}});
  const double first_step = 0.1 * 1.0 / (1.0 + 0.25);
  const double second_step = 0.1 * (1.75 / 0.75) / (std::sqrt(4.75 / 0.75) + 0.25);
  EXPECT_NEAR(first(weights), 1.0 - first_step - second_step, 1e-12);
}

TEST(Optimizer, SgdByHand) {
  const at::Tensor weights = fp64({1.0, 1.0});
  Optimizer plain({.rule = UpdateRule::kSgd, .rate = 0.1, .beta1 = 0.75, .nesterov = false},
                  kTwoElements, at::kDouble);
  plain.update({.weights = weights, .gradients = fp64({4.0, 8.0}), .compute = {}});
  EXPECT_NEAR(first(weights), 1.0 - 0.1 * 1.0, 1e-12);   // m = 0.25 * 4
  EXPECT_NEAR(second(weights), 1.0 - 0.1 * 2.0, 1e-12);  // m = 0.25 * 8

  const at::Tensor ahead = fp64({1.0, 1.0});
  Optimizer nesterov({.rule = UpdateRule::kSgd, .rate = 0.1, .beta1 = 0.75, .nesterov = true},
                     kTwoElements, at::kDouble);
  nesterov.update({.weights = ahead, .gradients = fp64({4.0, 8.0}), .compute = {}});
  EXPECT_NEAR(first(ahead), 1.0 - 0.1 * (0.25 * 4.0 + 0.75 * 1.0), 1e-12);
}

TEST(Optimizer, SgdDecaysWeightsAndNotNorms) {
  const at::Tensor weights = fp64({1.0, 1.0});
  Optimizer optimizer({.rule = UpdateRule::kSgd, .rate = 0.1, .decay = 0.5}, kTwoElements,
                      at::kDouble);
  optimizer.update({.weights = weights, .gradients = fp64({0.0, 0.0}), .compute = {}});
  EXPECT_NEAR(first(weights), 0.95, 1e-12);
  EXPECT_EQ(second(weights), 1.0);
}

TEST(Optimizer, NadamWKeepsTheProductOfItsMomenta) {
  Optimizer optimizer({.rule = UpdateRule::kNAdamW, .beta1 = 0.9}, kTwoElements, at::kDouble);
  const at::Tensor weights = fp64({1.0, 1.0});
  for (int i = 0; i < 2; ++i) {
    optimizer.update({.weights = weights, .gradients = fp64({1.0, 1.0}), .compute = {}});
  }
  const double mu1 = 0.9 * (1 - 0.5 * std::pow(0.96, 0.004));
  const double mu2 = 0.9 * (1 - 0.5 * std::pow(0.96, 0.008));
  EXPECT_DOUBLE_EQ(optimizer.state().momentum_product, mu1 * mu2);
}

TEST(Optimizer, RateFactorScalesStepAndDecay) {
  const at::Tensor weights = fp64({2.0, 2.0});
  Optimizer optimizer({.rule = UpdateRule::kAdamW, .rate = 0.2, .epsilon = 0, .decay = 0.5},
                      kTwoElements, at::kDouble);
  optimizer.update(
      {.weights = weights, .gradients = fp64({1.0, 1.0}), .compute = {}, .rate_factor = 0.5});
  EXPECT_NEAR(first(weights), 2.0 * (1 - 0.1 * 0.5) - 0.1, 1e-12);
}

TEST(Optimizer, GradientScaleEqualsScalingTheGradients) {
  const at::Tensor scaled = fp64({1.0, 1.0});
  const at::Tensor reference = fp64({1.0, 1.0});
  const UpdateOptions options = {.rule = UpdateRule::kAdamW, .epsilon = 0.5};
  Optimizer(options, kTwoElements, at::kDouble)
      .update({.weights = scaled,
               .gradients = fp64({4.0, -8.0}),
               .compute = {},
               .gradient_scale = 0.25});
  Optimizer(options, kTwoElements, at::kDouble)
      .update({.weights = reference, .gradients = fp64({1.0, -2.0}), .compute = {}});
  EXPECT_TRUE(at::equal(scaled, reference));
}

TEST(Optimizer, WritesTheComputeCopyInItsOwnType) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const int64_t count = 3 * kPieceElements + 5;
    Optimizer optimizer({.rule = UpdateRule::kAdamW}, {{"head", ParameterKind::kHead, 0, 1, count}},
                        at::kFloat);
    const at::Tensor weights = at::randn({count});
    const at::Tensor compute = at::zeros({count}, type);
    const at::Tensor gradients = at::randn({count});
    const at::Tensor kept = gradients.clone();
    optimizer.update({.weights = weights, .gradients = gradients, .compute = compute});
    EXPECT_TRUE(at::equal(compute, weights.to(type))) << type;
    EXPECT_TRUE(at::equal(gradients, kept)) << "gradients are read only";
  }
}

TEST(Optimizer, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const int64_t count = 20 * kPieceElements + 1234;
  const at::Tensor start = at::randn({count});
  const at::Tensor gradients = at::randn({count});
  for (const auto rule : {UpdateRule::kAdamW, UpdateRule::kNAdamW, UpdateRule::kSgd}) {
    at::Tensor alone;
    for (const int thread_count : {1, 1, 2, 3}) {
      at::set_num_threads(thread_count);
      Optimizer optimizer({.rule = rule, .decay = 0.1},
                          {{"head", ParameterKind::kHead, 0, 1, count}}, at::kFloat);
      const at::Tensor weights = start.clone();
      for (int i = 0; i < 3; ++i) optimizer.update({weights, gradients, {}});
      if (!alone.defined()) alone = weights;
      EXPECT_TRUE(at::equal(weights, alone)) << thread_count << " threads";
    }
  }
  at::set_num_threads(threads);
}

TEST(Optimizer, StateRestoredIntoAnotherContinuesBitForBit) {
  const ParameterLayout layout = {{"norm", ParameterKind::kVector, 0, 1, 40},
                                  {"q", ParameterKind::kMatrix, 40, 7, 5}};
  const at::Tensor gradients = at::randn({6, 75});
  for (const auto rule :
       {UpdateRule::kMuon, UpdateRule::kAdamW, UpdateRule::kNAdamW, UpdateRule::kSgd}) {
    const UpdateOptions options = {.rule = rule};
    Optimizer whole(options, layout, at::kFloat);
    const at::Tensor weights = at::randn({75});
    for (int i = 0; i < 3; ++i) whole.update({weights, gradients[i], {}});

    Optimizer resumed(options, layout, at::kFloat);
    const Optimizer::State from = whole.state();
    const Optimizer::State to = resumed.state();
    ASSERT_EQ(from.buffers.size(), to.buffers.size());
    for (size_t i = 0; i < to.buffers.size(); ++i) {
      EXPECT_EQ(from.buffers[i].first, to.buffers[i].first);
      to.buffers[i].second.copy_(from.buffers[i].second);
    }
    ASSERT_TRUE(resumed.restore(from.updates, from.momentum_product).ok());
    const at::Tensor continued = weights.clone();
    for (int i = 3; i < 6; ++i) {
      whole.update({weights, gradients[i], {}});
      resumed.update({continued, gradients[i], {}});
    }
    EXPECT_TRUE(at::equal(weights, continued));
  }
}

TEST(Optimizer, RejectsStateThatNoRunProduces) {
  Optimizer optimizer({.rule = UpdateRule::kNAdamW}, kTwoElements, at::kFloat);
  EXPECT_FALSE(optimizer.restore(-1, 1.0).ok());
  EXPECT_FALSE(optimizer.restore(1, 1.5).ok());
  EXPECT_FALSE(optimizer.restore(1, std::numeric_limits<double>::quiet_NaN()).ok());
  EXPECT_EQ(optimizer.updates_done(), 0);
}

TEST(Optimizer, CountsTheBytesOfItsState) {
  EXPECT_EQ(Optimizer({.rule = UpdateRule::kSgd}, kTwoElements, at::kFloat).state_bytes(), 8);
  EXPECT_EQ(Optimizer({.rule = UpdateRule::kAdamW}, kTwoElements, at::kDouble).state_bytes(), 32);
}

TEST(OptimizerDeathTest, StopsOnBuffersThatDoNotFitTheLayout) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Optimizer optimizer({.rule = UpdateRule::kAdamW}, kTwoElements, at::kFloat);
  EXPECT_DEATH(optimizer.update({at::zeros({3}), at::zeros({2}), {}}), "as long as the layout");
  EXPECT_DEATH(optimizer.update({fp64({0, 0}), at::zeros({2}), {}}), "the optimizer's type");
  EXPECT_DEATH(Optimizer({}, {{"gap", ParameterKind::kVector, 1, 1, 2}}, at::kFloat), "no gaps");
}

}  // namespace
}  // namespace leeway
