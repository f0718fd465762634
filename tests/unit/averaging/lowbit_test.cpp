#include "averaging/lowbit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

#include "averaging/gather.h"

namespace leeway {
namespace {

Subset whole(int64_t parameters) {
  return {.granularity = parameters, .parameters = parameters, .begins = {0}};
}

at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

TEST(LowbitBuffers, AreThoseThatTheOptionsNeed) {
  const LowbitBuffers plain = make_lowbit_buffers({}, at::randn({4}));
  EXPECT_FALSE(plain.pending.defined() || plain.momentum.defined());
  EXPECT_TRUE(plain.unsent.defined() && plain.residual.defined());
  const LowbitBuffers all = make_lowbit_buffers({.smoothing = 0.9, .gain = 1}, at::randn({4}));
  EXPECT_TRUE(all.pending.defined() && all.momentum.defined());
}

TEST(AddSteps, KeepsStepsThatAreSmallComparedWithTheWeights) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor before = at::full({3}, 4096.0, type);
    const at::Tensor after = before + 0x1p-10;
    LowbitBuffers buffers = make_lowbit_buffers({}, before);
    buffers.unsent.fill_(0x1p-20);  // would be lost next to 4096
    add_steps(before, after, buffers);
    EXPECT_TRUE(at::equal(buffers.unsent, at::full({3}, 0x1p-10 + 0x1p-20, type)));
  }
}

TEST(MergeSteps, EqualsTheEquations) {
  const LowbitOptions options = {
      .wire = WireFormat::kF32, .smoothing = 0.75, .gain = 0.5, .gain_smoothing = 0.25};
  const at::Tensor weights = number(10);
  LowbitBuffers buffers = make_lowbit_buffers(options, weights);
  double w = 10, s = 0, ub = 0, acc = 0;
  for (int round = 0; round < 8; ++round) {
    const double answer = 1 + round % 3;
    const double sent = 0.5 * round;
    const bool contributed = round % 4 != 3;
    if (contributed) {
      s = 0.75 * s + answer - sent;
      w += 0.25 * s;
    } else {
      acc += sent;
      w += answer;
    }
    ub = 0.25 * ub + 0.75 * answer;
    w += 0.5 * ub;
    const double old = weights.item<double>();
    const MergeNorms norms = merge_steps(options,
                                         {.subset = whole(1),
                                          .answer = number(answer),
                                          .sent = number(sent),
                                          .contributed = contributed,
                                          .weights = weights},
                                         buffers);
    EXPECT_NEAR(weights.item<double>(), w, 1e-13);
    EXPECT_NEAR(buffers.unsent.item<double>(), acc, 1e-13);
    EXPECT_NEAR(norms.correction, (w - old) * (w - old), 1e-11);
    EXPECT_EQ(norms.drift, contributed ? sent * sent : 0.0);
  }
}

TEST(MergeSteps, AWorkerThatSentNothingTakesTheAnswer) {
  const at::Tensor weights = number(1);
  LowbitBuffers buffers = make_lowbit_buffers({}, weights);
  merge_steps({},
              {.subset = whole(1), .answer = number(3), .contributed = false, .weights = weights},
              buffers);
  EXPECT_EQ(weights.item<double>(), 4.0);
  EXPECT_EQ(buffers.unsent.item<double>(), 0.0);
}

TEST(MergeSteps, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const LowbitOptions options = {.smoothing = 0.9, .gain = 1, .gain_smoothing = 0.9};
  const int64_t parameters = 600'001;
  const Subset subset = Cut({.seed = 1, .parameters = parameters}).subset(0);
  const at::Tensor start = at::randn({parameters});
  const at::Tensor steps = at::randn({parameters}) * 0.01;
  const auto run = [&](int count, at::Tensor& weights, LowbitBuffers& buffers) {
    at::set_num_threads(count);
    weights = start + steps;
    buffers = make_lowbit_buffers(options, start);
    add_steps(start, weights, buffers);
    const at::Tensor own = contribute_steps(options, subset, {}, buffers);
    const at::Tensor sent = decode(options.wire, own, parameters, at::kFloat);
    const at::Tensor answer = reduce_steps(options, subset, {sent, steps}, {}, buffers);
    return merge_steps(options,
                       {.subset = subset,
                        .answer = decode(options.wire, answer, parameters, at::kFloat),
                        .sent = sent,
                        .weights = weights},
                       buffers);
  };
  at::Tensor alone, weights;
  LowbitBuffers alone_buffers, buffers;
  const MergeNorms alone_norms = run(1, alone, alone_buffers);
  const MergeNorms norms = run(2, weights, buffers);
  EXPECT_TRUE(at::equal(weights, alone));
  EXPECT_TRUE(at::equal(buffers.unsent, alone_buffers.unsent));
  EXPECT_TRUE(at::equal(buffers.residual, alone_buffers.residual));
  EXPECT_EQ(norms.drift, alone_norms.drift);
  EXPECT_EQ(norms.correction, alone_norms.correction);
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace leeway
