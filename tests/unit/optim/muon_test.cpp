#include "optim/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optim/direction.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

NewtonSchulzScratch scratch_for(const at::Tensor& matrices) {
  const int64_t count = matrices.size(0);
  const int64_t smaller = std::min(matrices.size(1), matrices.size(2));
  return {.x = matrices.clone(),
          .next = at::empty_like(matrices),
          .gram = at::empty({count, smaller, smaller}, matrices.options()),
          .polynomial = at::empty({count, smaller, smaller}, matrices.options()),
          .norm = at::empty({count, 1, 1}, matrices.options())};
}

at::Tensor orthogonalized(const at::Tensor& matrices) {
  NewtonSchulzScratch scratch = scratch_for(matrices);
  return orthogonalize(scratch).clone();
}

TEST(NewtonSchulz, OfAScalarIsThePolynomialFiveTimes) {
  double expected = 1.0 / (1.0 + 1e-7 / 2.0);  // 2 / (2 + 1e-7)
  for (int i = 0; i < 5; ++i) {
    expected = 3.4445 * expected - 4.775 * std::pow(expected, 3) + 2.0315 * std::pow(expected, 5);
  }
  const at::Tensor result = orthogonalized(at::full({1, 1, 1}, 2.0, at::kDouble));
  EXPECT_NEAR(result.item<double>(), expected, 1e-12);
}

TEST(NewtonSchulz, PushesSingularValuesTowardsOne) {
  for (const auto& shape : {std::vector<int64_t>{2, 12, 12}, {1, 7, 30}, {1, 30, 7}}) {
    const at::Tensor result = orthogonalized(at::randn(shape, at::kDouble));
    const at::Tensor values = at::linalg_svdvals(result);
    EXPECT_LT(values.max().item<double>(), 1.3);
    EXPECT_GT(values.mean().item<double>(), 0.7);
  }
}

TEST(NewtonSchulz, OfTheTransposeIsTheTranspose) {
  const at::Tensor wide = at::randn({3, 5, 11}, at::kDouble);
  const at::Tensor tall = wide.transpose(1, 2).contiguous();
  EXPECT_TRUE(
      at::allclose(orthogonalized(tall).transpose(1, 2), orthogonalized(wide), 1e-10, 1e-12));
}

TEST(NewtonSchulz, DoesNotDependOnTheScaleOfItsInput) {
  const at::Tensor matrices = at::randn({1, 6, 9}, at::kDouble);
  EXPECT_TRUE(at::allclose(orthogonalized(matrices), orthogonalized(matrices * 1000), 1e-5, 1e-7));
}

TEST(NewtonSchulz, AZeroMatrixStaysZero) {
  EXPECT_TRUE(at::equal(orthogonalized(at::zeros({1, 4, 6})), at::zeros({1, 4, 6})));
}

TEST(NewtonSchulz, UsesBf16OnlyForFp32OnAGpu) {
  const at::TensorOptions cpu = at::TensorOptions().dtype(at::kFloat);
  EXPECT_EQ(newton_schulz_type(cpu), at::kFloat);
  EXPECT_EQ(newton_schulz_type(cpu.device(at::kCUDA)), at::kBFloat16);
  EXPECT_EQ(newton_schulz_type(cpu.dtype(at::kDouble).device(at::kCUDA)), at::kDouble);
}

const ParameterLayout kBlock = {{"embedding", ParameterKind::kEmbedding, 0, 9, 4},
                                {"norm", ParameterKind::kVector, 36, 1, 4},
                                {"q", ParameterKind::kMatrix, 40, 4, 4},
                                {"up", ParameterKind::kMatrix, 56, 10, 4},
                                {"k", ParameterKind::kMatrix, 96, 4, 4},
                                {"down", ParameterKind::kMatrix, 112, 4, 10}};
constexpr int64_t kBlockCount = 152;

TEST(Muon, OrthogonalizesMatricesAndLeavesTheRestToAdamW) {
  const UpdateOptions options = {
      .rule = UpdateRule::kMuon, .rate = 0.01, .matrix_rate = 0.1, .decay = 0.2};
  UpdateOptions adam_options = options;
  adam_options.rule = UpdateRule::kAdamW;
  Optimizer muon(options, kBlock, at::kDouble);
  Optimizer adam(adam_options, kBlock, at::kDouble);
  const at::Tensor start = at::randn({kBlockCount}, at::kDouble);
  const at::Tensor gradients = at::randn({kBlockCount}, at::kDouble);
  const at::Tensor weights = start.clone();
  const at::Tensor adam_weights = start.clone();
  muon.update({weights, gradients, {}});
  adam.update({adam_weights, gradients, {}});
  EXPECT_TRUE(at::equal(weights.narrow(0, 0, 40), adam_weights.narrow(0, 0, 40)));

  // The first momentum is (1 - beta1) g. The scale matters although the result hardly depends on
  // it: the effect of the norm's epsilon does, and the iteration makes small singular values 485
  // times larger.
  const Direction mix = momentum_direction(options.beta1, options.nesterov);
  const double scale = mix.gradient + mix.momentum * (1 - options.beta1);
  const at::Tensor direction = scale * gradients.narrow(0, 56, 40).view({1, 10, 4});
  const at::Tensor expected = start.narrow(0, 56, 40) * (1 - 0.1 * 0.2) -
                              0.1 * std::sqrt(2.5) * orthogonalized(direction).view({40});
  EXPECT_TRUE(at::allclose(weights.narrow(0, 56, 40), expected, 1e-6, 1e-8));
}

TEST(Muon, MatricesOfOneShapeDoNotMix) {
  // q and k are orthogonalized together; the gradient of one must not move the other.
  Optimizer optimizer({.rule = UpdateRule::kMuon}, kBlock, at::kDouble);
  const at::Tensor weights = at::randn({kBlockCount}, at::kDouble);
  const at::Tensor start = weights.clone();
  const at::Tensor gradients = at::zeros({kBlockCount}, at::kDouble);
  gradients.narrow(0, 96, 16).copy_(at::randn({16}, at::kDouble));
  optimizer.update({weights, gradients, {}});
  EXPECT_TRUE(at::equal(weights.narrow(0, 0, 96), start.narrow(0, 0, 96)));
  EXPECT_FALSE(at::equal(weights.narrow(0, 96, 16), start.narrow(0, 96, 16)));
}

TEST(Muon, WritesTheComputeCopyOfMatricesToo) {
  Optimizer optimizer({.rule = UpdateRule::kMuon}, kBlock, at::kFloat);
  const at::Tensor weights = at::randn({kBlockCount});
  const at::Tensor compute = at::zeros({kBlockCount}, at::kBFloat16);
  optimizer.update({weights, at::randn({kBlockCount}), compute});
  EXPECT_TRUE(at::equal(compute, weights.to(at::kBFloat16)));
}

TEST(Muon, TwoRunsGiveTheSameBits) {
  const at::Tensor start = at::randn({kBlockCount});
  const at::Tensor gradients = at::randn({kBlockCount});
  at::Tensor before;
  for (int run = 0; run < 2; ++run) {
    Optimizer optimizer({.rule = UpdateRule::kMuon}, kBlock, at::kFloat);
    const at::Tensor weights = start.clone();
    for (int i = 0; i < 4; ++i) optimizer.update({weights, gradients, {}});
    if (before.defined()) {
      EXPECT_TRUE(at::equal(weights, before));
    }
    before = weights;
  }
}

}  // namespace
}  // namespace leeway
