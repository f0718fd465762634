// Moments that are kept in bf16.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernels/update_loops.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

// A matrix for Muon, and more than one piece for everything else.
const ParameterLayout kLayout = {{"matrix", ParameterKind::kMatrix, 0, 24, 32},
                                 {"head", ParameterKind::kHead, 768, 64, 150},
                                 {"norm", ParameterKind::kVector, 10368, 1, 33}};
const int64_t kCount = parameter_count(kLayout);

UpdateOptions options_of(UpdateRule rule, MomentType moments) {
  return {.rule = rule,
          .rate = 1e-3,
          .matrix_rate = 1e-3,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .moments = moments,
          .seed = 3};
}

at::Tensor buffer(const Optimizer& optimizer, const std::string& name) {
  for (const auto& [own, tensor] : optimizer.state().buffers) {
    if (own == name) return tensor;
  }
  return {};
}

// The gradients of a bowl, with noise: weights go to a target.
class Descent {
 public:
  Descent(UpdateRule rule, MomentType moments)
      : optimizer_(options_of(rule, moments), kLayout, at::kFloat),
        weights_(at::linspace(-1, 1, kCount)) {}
  void run(int64_t updates) {
    for (int64_t i = 0; i < updates; ++i) {
      const int64_t now = optimizer_.updates_done();
      const at::Tensor noise = at::sin(at::arange(kCount, at::kFloat) * 12.9898 * (now + 1)) * 0.1;
      optimizer_.update({.weights = weights_, .gradients = weights_ - 0.5 + noise, .compute = {}});
    }
  }
  Optimizer& optimizer() { return optimizer_; }
  const at::Tensor& weights() const { return weights_; }

 private:
  Optimizer optimizer_;
  at::Tensor weights_;
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).to(at::kDouble).norm().item<double>();
}

TEST(Bf16Moments, LeadWhereThoseInFp32Do) {
  for (const auto rule :
       {UpdateRule::kAdamW, UpdateRule::kNAdamW, UpdateRule::kSgd, UpdateRule::kMuon}) {
    Descent wide(rule, MomentType::kF32);
    Descent narrow(rule, MomentType::kBf16);
    const at::Tensor start = wide.weights().clone();
    wide.run(200);
    narrow.run(200);
    const double path = distance(start, wide.weights());
    EXPECT_LT(distance(wide.weights(), narrow.weights()), 0.02 * path);
    EXPECT_EQ(2 * narrow.optimizer().state_bytes(), wide.optimizer().state_bytes());
  }
}

// With beta2 = 0.999 a step towards a new level is a thousandth of the difference: less than half
// a unit in the last place of bf16, which rounding to nearest would lose.
TEST(Bf16Moments, TheVarianceFollowsSmallSteps) {
  Descent narrow(UpdateRule::kAdamW, MomentType::kBf16);
  Optimizer& optimizer = narrow.optimizer();
  const at::Tensor weights = at::zeros({kCount});
  for (const double level : {1.0, 1.4}) {
    for (int i = 0; i < 3000; ++i) {
      optimizer.update({.weights = weights, .gradients = at::full({kCount}, level), .compute = {}});
    }
  }
  const at::Tensor variance = buffer(optimizer, "variance").narrow(0, 768, kCount - 768);
  const double expected = 1.4 * 1.4 + (1 - 1.96) * std::pow(0.999, 3000);
  EXPECT_NEAR(variance.to(at::kDouble).mean().item<double>(), expected, 0.005);
}

TEST(Bf16Moments, RoundingIsUnbiased) {
  constexpr int64_t kDraws = 200'000;
  for (const float value : {1.001F, -3.14159F, 1e-20F, 1.9999F, 0.0F, -1.0F}) {
    const std::vector<float> values(kDraws, value);
    std::vector<uint16_t> rounded(kDraws);
    std::vector<float> back(kDraws);
    for (const Moment moment : {Moment::kMomentum, Moment::kVariance}) {
      round_block(values.data(), kDraws, /*folded=*/77, /*first=*/5, moment, rounded.data());
      widen_block(rounded.data(), kDraws, back.data());
      double sum = 0;
      for (const float drawn : back) {
        EXPECT_LE(std::abs(drawn - value), std::abs(value) / 128);
        sum += static_cast<double>(drawn);
      }
      // A unit in the last place is at most 1/128 of the value, and its mean 450 times better
      // known.
      EXPECT_NEAR(sum / kDraws, value, std::abs(value) / 128 / 2 / 450 * 5);
    }
  }
}

TEST(Bf16Moments, WhatIsNotFiniteStaysSo) {
  const std::vector<float> values = {INFINITY, -INFINITY, NAN};
  std::vector<uint16_t> rounded(3);
  std::vector<float> back(3);
  for (uint64_t key = 0; key < 100; ++key) {
    round_block(values.data(), 3, key, 0, Moment::kMomentum, rounded.data());
    widen_block(rounded.data(), 3, back.data());
    EXPECT_EQ(back[0], INFINITY);
    EXPECT_EQ(back[1], -INFINITY);
    EXPECT_TRUE(std::isnan(back[2]));
  }
}

TEST(Bf16Moments, SameBitsForEveryNumberOfThreads) {
  std::vector<at::Tensor> ends;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    Descent narrow(UpdateRule::kAdamW, MomentType::kBf16);
    narrow.run(20);
    ends.push_back(at::cat({narrow.weights(), buffer(narrow.optimizer(), "momentum").to(at::kFloat),
                            buffer(narrow.optimizer(), "variance").to(at::kFloat)}));
  }
  EXPECT_TRUE(at::equal(ends[0], ends[1]));
  EXPECT_TRUE(at::equal(ends[0], ends[2]));
}

TEST(Bf16Moments, GoOnFromASavedStateWithTheSameBits) {
  for (const auto rule : {UpdateRule::kAdamW, UpdateRule::kMuon}) {
    Descent whole(rule, MomentType::kBf16);
    Descent resumed(rule, MomentType::kBf16);
    whole.run(10);
    resumed.weights().copy_(whole.weights());
    const Optimizer::State state = whole.optimizer().state();
    for (const auto& [name, tensor] : state.buffers) {
      buffer(resumed.optimizer(), name).copy_(tensor);
    }
    ASSERT_TRUE(resumed.optimizer().restore(state.updates, state.momentum_product).ok());
    whole.run(10);
    resumed.run(10);
    EXPECT_TRUE(at::equal(whole.weights(), resumed.weights()));
    EXPECT_TRUE(
        at::equal(buffer(whole.optimizer(), "momentum"), buffer(resumed.optimizer(), "momentum")));
  }
}

TEST(Bf16Moments, APreviewChangesNothingAndShowsTheUpdate) {
  for (const auto rule : {UpdateRule::kAdamW, UpdateRule::kSgd, UpdateRule::kMuon}) {
    Descent narrow(rule, MomentType::kBf16);
    narrow.run(3);
    const at::Tensor momentum = buffer(narrow.optimizer(), "momentum").clone();
    const at::Tensor before = narrow.weights().clone();
    const at::Tensor gradients = at::cos(at::arange(kCount, at::kFloat));
    const at::Tensor shown = at::zeros({kCount});
    narrow.optimizer().preview(
        {.weights = narrow.weights(), .gradients = gradients, .compute = shown});
    EXPECT_TRUE(at::equal(momentum, buffer(narrow.optimizer(), "momentum")));
    EXPECT_TRUE(at::equal(before, narrow.weights()));
    narrow.optimizer().update({.weights = narrow.weights(), .gradients = gradients, .compute = {}});
    EXPECT_TRUE(at::equal(shown, narrow.weights()));
    EXPECT_FALSE(at::equal(momentum, buffer(narrow.optimizer(), "momentum")));
  }
}

}  // namespace
}  // namespace leeway
