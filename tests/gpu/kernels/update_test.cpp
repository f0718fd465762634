// The CUDA twins of update, norms and gate against those of the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../../support/layouts.h"
#include "gpu.h"
#include "kernels/gate.h"
#include "kernels/norms.h"
#include "kernels/update.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

using GpuUpdate = GpuTest;
using GpuNorms = GpuTest;
using GpuGate = GpuTest;
using GpuOptimizer = GpuTest;

PassTensors pass_on_gpu(const PassTensors& t) {
  return {to_gpu(t.weights), to_gpu(t.gradients), to_gpu(t.momentum), to_gpu(t.variance),
          to_gpu(t.compute), t.preview,           to_gpu(t.gate),     t.rounding};
}

constexpr StepConstants kConstants = {.gradient_scale = 0.37,
                                      .momentum_share = 0.05,
                                      .variance_keep = 0.999,
                                      .weight_keep = 0.98,
                                      .gradient_part = 0.003,
                                      .momentum_part = 0.01,
                                      .root_scale = 1.7,
                                      .epsilon = 1e-8};

// Spans with odd lengths and offsets, and some that are multiples of four.
const std::vector<std::vector<Span>> kSpans = {
    {{0, 1, true}},
    {{0, 4096, true}, {4096, 4, false}},
    {{0, 3, false}, {3, 5000, true}, {5003, 8192, false}, {13195, 1021, true}},
    {{8, 4100, true}, {4108, 255, false}}};

PassTensors random_tensors(int64_t count, bool adam, at::ScalarType copy) {
  PassTensors tensors = {at::randn({count}), at::randn({count}), at::randn({count}),
                         adam ? at::rand({count}) : at::Tensor(),
                         at::zeros({count}, at::TensorOptions(copy))};
  return tensors;
}

void expect_same_pass(const std::vector<Span>& spans, const PassTensors& cpu,
                      double noise_share = 1) {
  const PassTensors gpu = pass_on_gpu(cpu);
  StepConstants constants = kConstants;
  constants.noise_share = noise_share;
  constants.square_scale = 0.9;
  element_pass(UpdatePieces(spans, at::kCPU), constants, cpu);
  element_pass(UpdatePieces(spans, test_gpu().device), constants, gpu);
  EXPECT_TRUE(same_bits(cpu.weights, gpu.weights));
  EXPECT_TRUE(same_bits(cpu.momentum, gpu.momentum));
  EXPECT_TRUE(same_bits(cpu.variance, gpu.variance));
  EXPECT_TRUE(same_bits(cpu.compute, gpu.compute));
}

TEST_F(GpuUpdate, ElementPassHasTheCpusBits) {
  for (const std::vector<Span>& spans : kSpans) {
    const int64_t count = spans.back().offset + spans.back().count;
    for (const bool adam : {true, false}) {
      for (const auto copy : {at::kFloat, at::kBFloat16}) {
        for (const bool preview : {false, true}) {
          PassTensors cpu = random_tensors(count, adam, copy);
          cpu.preview = preview;
          cpu.gate = at::tensor({0.5, 1.0, 0.0, 0.0, 0.0}, at::kDouble);
          expect_same_pass(spans, cpu, copy == at::kFloat ? 1 : 0.25);
        }
      }
    }
  }
}

TEST_F(GpuUpdate, MomentsInBf16HaveTheCpusBits) {
  for (const std::vector<Span>& spans : kSpans) {
    const int64_t count = spans.back().offset + spans.back().count;
    for (const bool adam : {true, false}) {
      for (const bool preview : {false, true}) {
        PassTensors cpu = random_tensors(count, adam, at::kBFloat16);
        cpu.momentum = cpu.momentum.to(at::kBFloat16);
        if (adam) cpu.variance = cpu.variance.to(at::kBFloat16);
        cpu.preview = preview;
        cpu.rounding = 0x123456789abcdef0;
        expect_same_pass(spans, cpu);
      }
    }
  }
}

TEST_F(GpuUpdate, AClosedGateKeepsEverythingAndStillWritesTheCopy) {
  const PassTensors before = random_tensors(9001, true, at::kBFloat16);
  PassTensors gpu = pass_on_gpu(before);
  gpu.gate = at::tensor({1.0, 0.0, 0.0, 0.0, 0.0}, at::kDouble).to(test_gpu().device);
  gpu.gradients.fill_(std::numeric_limits<float>::quiet_NaN());
  element_pass(UpdatePieces({{0, 9001, true}}, test_gpu().device), kConstants, gpu);
  EXPECT_TRUE(same_bits(before.weights, gpu.weights));
  EXPECT_TRUE(same_bits(before.momentum, gpu.momentum));
  EXPECT_TRUE(same_bits(before.variance, gpu.variance));
  EXPECT_TRUE(same_bits(before.weights.to(at::kBFloat16), gpu.compute));
}

TEST_F(GpuNorms, AreTheCpusUpToTheLastDigits) {
  const ParameterLayout layout = layout_of({33, 20'000, 1, 64, 5'000'003, 7});
  const at::Tensor flat = at::randn({parameter_count(layout)});
  const at::Tensor cpu = ParameterNorms(layout, at::kCPU).squares(flat);
  const ParameterNorms norms(layout, test_gpu().device);
  const at::Tensor gpu = norms.squares(to_gpu(flat));
  EXPECT_TRUE(at::allclose(cpu, gpu.cpu(), 1e-13, 0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(norms.squares(to_gpu(flat)), gpu));
  // However the model is cut: the same bits at another offset.
  const at::Tensor alone = flat.narrow(0, 20'098, 5'000'003).clone();
  const at::Tensor again =
      ParameterNorms(layout_of({5'000'003}), test_gpu().device).squares(to_gpu(alone));
  EXPECT_TRUE(at::equal(again[0], gpu[4]));
}

TEST_F(GpuNorms, OfDifferencesAreTheCpusUpToTheLastDigits) {
  for (const int64_t count : {1, 255, 4'099, 5'000'003}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << count << " of " << type);
      const at::Tensor weights = at::randn({count});
      const at::Tensor copy = (weights + 0.1 * at::randn({count})).to(type);
      const at::Tensor cpu = squared_distance(copy, weights);
      const at::Tensor expected = (copy.to(at::kFloat) - weights).to(at::kDouble).square().sum();
      EXPECT_TRUE(at::allclose(cpu[0], expected, 1e-12, 0));
      // Anywhere, as parts of larger buffers.
      const at::Tensor gpu = squared_distance(on_gpu(copy, 1), on_gpu(weights, 3));
      EXPECT_TRUE(at::allclose(cpu, gpu.cpu(), 1e-12, 0));
      EXPECT_TRUE(same_bits(squared_distance(to_gpu(copy), to_gpu(weights)), gpu));
    }
  }
}

TEST_F(GpuGate, HasTheCpusBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t count : {1, 255, 256, 1000}) {
    for (const double spoiled : {0.0, nan}) {
      const at::Tensor norms = at::rand({count}, at::kDouble) + spoiled;
      const at::Tensor losses = at::rand({7});
      for (const at::Tensor& total : {at::Tensor(), at::full({1}, 12.5, at::kDouble)}) {
        const at::Tensor cpu = make_gate(at::kCPU);
        const at::Tensor gpu = make_gate(test_gpu().device);
        set_gate({.norms = norms, .total = total, .losses = losses, .clip = 0.3, .factor = 1.5},
                 cpu);
        set_gate({.norms = to_gpu(norms),
                  .total = to_gpu(total),
                  .losses = to_gpu(losses),
                  .clip = 0.3,
                  .factor = 1.5},
                 gpu);
        EXPECT_TRUE(at::allclose(cpu, gpu.cpu(), 0, 0, /*equal_nan=*/true)) << cpu << gpu;
        EXPECT_EQ(gpu[kGateOpen].item<double>(), std::isnan(spoiled) && !total.defined() ? 0 : 1);
      }
      EXPECT_TRUE(at::allclose(sum_in_order({norms, norms}),
                               sum_in_order({to_gpu(norms), to_gpu(norms)}).cpu(), 0, 0, true));
    }
  }
}

TEST_F(GpuOptimizer, MuonFollowsTheCpu) {
  const ParameterLayout layout = {{"a", ParameterKind::kMatrix, 0, 48, 80},
                                  {"b", ParameterKind::kMatrix, 3840, 80, 48},
                                  {"c", ParameterKind::kVector, 7680, 1, 17}};
  const int64_t count = parameter_count(layout);
  const at::Tensor start = at::randn({count});
  const at::Tensor weights = start.clone();
  const at::Tensor gpu_weights = to_gpu(start);
  Optimizer cpu({.rule = UpdateRule::kMuon}, layout, at::kFloat);
  Optimizer gpu({.rule = UpdateRule::kMuon}, layout,
                at::TensorOptions(at::kFloat).device(test_gpu().device));
  for (int i = 0; i < 3; ++i) {
    const at::Tensor gradients = at::randn({count});
    cpu.update({weights, gradients, {}});
    gpu.update({gpu_weights, to_gpu(gradients), {}});
  }
  // Newton-Schulz runs in bf16 there.
  const double moved = (weights - start).norm().item<double>();
  EXPECT_LT((weights - gpu_weights.cpu()).norm().item<double>(), 0.02 * moved);
}

}  // namespace
}  // namespace leeway
