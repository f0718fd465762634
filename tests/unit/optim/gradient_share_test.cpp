// UpdateOptions::gradient_share: the direction k g + (1-k) m / (1 - b1^t) in every rule.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optim/direction.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

at::Tensor fp64(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kDouble);
}

TEST(MatchedDirection, MixesGradientAndBiasCorrectedMomentum) {
  const Direction direction = matched_direction(0.5, 2, 0.25);
  EXPECT_DOUBLE_EQ(direction.gradient, 0.25);
  EXPECT_DOUBLE_EQ(direction.momentum, 0.75 / 0.75);
  // For equal gradients it is the gradient, from the first update on.
  for (int64_t t = 1; t < 9; ++t) {
    const double momentum = 1 - std::pow(0.9, static_cast<double>(t));
    const Direction equal = matched_direction(0.9, t, 0.078);
    EXPECT_NEAR(equal.gradient + equal.momentum * momentum, 1.0, 1e-12);
  }
}

TEST(MatchedDirection, WithoutAShareIsAdams) {
  const Direction direction = matched_direction(0.9, 5, 0);
  EXPECT_EQ(direction.gradient, 0.0);
  EXPECT_EQ(direction.momentum, adam_direction(0.9, 5).momentum);
}

const ParameterLayout kOneElement = {{"head", ParameterKind::kHead, 0, 1, 1}};

TEST(GradientShare, SgdByHand) {
  // b1 = .75, gradients 4 then 8: m = 1, 2.75; divided by .25, .4375; k = .25.
  for (const bool nesterov : {false, true}) {  // the share replaces either form
    const UpdateOptions options = {.rule = UpdateRule::kSgd,
                                   .rate = 0.1,
                                   .beta1 = 0.75,
                                   .nesterov = nesterov,
                                   .gradient_share = 0.25};
    Optimizer optimizer(options, kOneElement, at::kDouble);
    const at::Tensor weights = fp64({1.0});
    optimizer.update({weights, fp64({4.0}), {}});
    EXPECT_NEAR(weights.item<double>(), 1.0 - 0.1 * 4.0, 1e-12);
    optimizer.update({weights, fp64({8.0}), {}});
    EXPECT_NEAR(weights.item<double>(), 0.6 - 0.1 * (0.25 * 8.0 + 0.75 * 2.75 / 0.4375), 1e-12);
  }
}

TEST(GradientShare, AdamWByHand) {
  // b1 = b2 = .5, gradients 1 then 3: m = .5, 1.75; v = .5, 4.75; divided by .5, .75; k = .25.
  const UpdateOptions options = {.rule = UpdateRule::kAdamW,
                                 .rate = 0.1,
                                 .beta1 = 0.5,
                                 .beta2 = 0.5,
                                 .epsilon = 0.25,
                                 .gradient_share = 0.25};
  Optimizer optimizer(options, kOneElement, at::kDouble);
  const at::Tensor weights = fp64({1.0});
  optimizer.update({weights, fp64({1.0}), {}});
  optimizer.update({weights, fp64({3.0}), {}});
  const double first_step = 0.1 * 1.0 / (1.0 + 0.25);
  const double second_step = 0.1 * (0.25 * 3.0 + 1.75) / (std::sqrt(4.75 / 0.75) + 0.25);
  EXPECT_NEAR(weights.item<double>(), 1.0 - first_step - second_step, 1e-12);
}

// A one-row matrix, next to an element that AdamW updates.
const ParameterLayout kRowAndNorm = {{"q", ParameterKind::kMatrix, 0, 1, 2},
                                     {"norm", ParameterKind::kVector, 2, 1, 1}};

TEST(GradientShare, MuonByHand) {
  // An orthogonalized row is the row over its length, times five steps of the polynomial from 1.
  double length = 1;
  for (int i = 0; i < 5; ++i) {
    length = 3.4445 * length - 4.775 * std::pow(length, 3) + 2.0315 * std::pow(length, 5);
  }
  // b1 = .5, gradients (1, 0) then (0, 1): m = (.25, .5), divided by .75; k = .4: d = (.2, .8).
  UpdateOptions options = {
      .rule = UpdateRule::kMuon, .matrix_rate = 0.1, .beta1 = 0.5, .gradient_share = 0.4};
  Optimizer muon(options, kRowAndNorm, at::kDouble);
  options.rule = UpdateRule::kAdamW;
  Optimizer adam(options, kRowAndNorm, at::kDouble);
  const at::Tensor weights = fp64({0.0, 0.0, 1.0});
  const at::Tensor adam_weights = fp64({0.0, 0.0, 1.0});
  for (const auto& gradients : {fp64({1.0, 0.0, 3.0}), fp64({0.0, 1.0, -1.0})}) {
    muon.update({weights, gradients, {}});
    adam.update({adam_weights, gradients, {}});
  }
  const double norm = std::sqrt(0.2 * 0.2 + 0.8 * 0.8);
  EXPECT_NEAR(weights[0].item<double>(), -0.1 * length * (1 + 0.2 / norm), 1e-6);
  EXPECT_NEAR(weights[1].item<double>(), -0.1 * length * 0.8 / norm, 1e-6);
  EXPECT_EQ(weights[2].item<double>(), adam_weights[2].item<double>());
}

// The same pass with the constants of the rule's own form, written out.
at::Tensor own_form(const UpdateOptions& options, const Direction& direction,
                    const at::Tensor& start, const at::Tensor& gradients) {
  const bool adam = options.rule != UpdateRule::kSgd;
  const at::Tensor weights = start.clone();
  const PassTensors tensors = {weights, gradients, at::zeros_like(weights),
                               adam ? at::zeros_like(weights) : at::Tensor(), at::Tensor()};
  const StepConstants constants = {.gradient_scale = 1,
                                   .momentum_share = 1 - options.beta1,
                                   .variance_keep = options.beta2,
                                   .weight_keep = 1 - options.rate * options.decay,
                                   .gradient_part = options.rate * direction.gradient,
                                   .momentum_part = options.rate * direction.momentum,
                                   .root_scale = 1 / std::sqrt(1 - options.beta2),
                                   .epsilon = options.epsilon};
  element_pass(UpdatePieces({{0, start.numel(), true}}, at::kCPU), constants, tensors);
  return weights;
}

TEST(GradientShare, UnsetLeavesEveryRuleItsOwnForm) {
  const at::Tensor start = at::randn({500});
  const at::Tensor gradients = at::randn({500});
  const auto updated = [&](const UpdateOptions& options, ParameterKind kind) {
    const at::Tensor weights = start.clone();
    Optimizer(options, {{"w", kind, 0, 20, 25}}, at::kFloat).update({weights, gradients, {}});
    return weights;
  };
  const double b = 0.9;
  UpdateOptions options = {.rule = UpdateRule::kSgd, .beta1 = b, .decay = 0.1};
  EXPECT_TRUE(at::equal(updated(options, ParameterKind::kHead),
                        own_form(options, {1 - b, b}, start, gradients)));
  options.nesterov = false;
  EXPECT_TRUE(at::equal(updated(options, ParameterKind::kHead),
                        own_form(options, {0, 1}, start, gradients)));
  for (const auto rule : {UpdateRule::kAdamW, UpdateRule::kMuon}) {
    options.rule = rule;
    EXPECT_TRUE(at::equal(updated(options, ParameterKind::kHead),
                          own_form(options, {0, 1 / (1 - b)}, start, gradients)));
  }
  options.rule = UpdateRule::kNAdamW;
  const double mu1 = b * (1 - 0.5 * std::pow(0.96, 0.004));
  EXPECT_TRUE(at::equal(updated(options, ParameterKind::kHead),
                        own_form(options, nadam_direction(b, 1, mu1), start, gradients)));

  options.rule = UpdateRule::kMuon;  // and its matrices
  options.nesterov = true;
  const PassTensors tensors = {start.clone(), gradients, at::zeros({500}), {}, {}};
  MatrixPass({{"w", ParameterKind::kMatrix, 0, 20, 25}}, at::kFloat)
      .run({.momentum_share = 1 - b,
            .weight_keep = 1 - options.matrix_rate * options.decay,
            .gradient_part = 1 - b,
            .momentum_part = b},
           options.matrix_rate, tensors);
  EXPECT_TRUE(at::equal(updated(options, ParameterKind::kMatrix), tensors.weights));
}

TEST(GradientShareDeathTest, StopsOnInvalidOptions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const UpdateOptions nadamw = {.rule = UpdateRule::kNAdamW, .gradient_share = 0.1};
  EXPECT_DEATH(Optimizer(nadamw, kOneElement, at::kFloat), "look-ahead of its own");
  const UpdateOptions above = {.rule = UpdateRule::kSgd, .gradient_share = 1.5};
  EXPECT_DEATH(Optimizer(above, kOneElement, at::kFloat), "0 to 1");
}

}  // namespace
}  // namespace leeway
