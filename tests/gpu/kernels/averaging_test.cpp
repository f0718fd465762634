// Subsets, merges and means on a GPU against their twins on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/merge.h"
#include "averaging/subset.h"
#include "twins.h"

namespace leeway {
namespace {

using AveragingKernels = GpuTest;

TEST_F(AveragingKernels, GatherAndScatterCopyTheSameBits) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor flat = at::randn({subset.parameters}).to(type);
      const at::Tensor theirs = on_gpu(flat, skipped);
      EXPECT_TRUE(same_bits(gather(subset, flat), gather(subset, theirs)));
      const at::Tensor fresh = at::randn({subset.count()});
      scatter(subset, fresh, flat);
      scatter(subset, on_gpu(fresh, skipped), theirs);
      EXPECT_TRUE(same_bits(flat, theirs));
    }
  });
}

struct MergeCase {
  MergeOptions options;
  MergeArguments arguments;
  MergeBuffers buffers;
};

MergeCase random_merge(const MergeOptions& options, const Subset& subset) {
  MergeCase made = {.options = options,
                    .arguments = {.subset = subset,
                                  .round = 7,
                                  .mean = at::randn({subset.count()}),
                                  .sent = at::randn({subset.count()}),
                                  .weights = at::randn({subset.parameters})},
                    .buffers = make_merge_buffers(options, at::randn({subset.parameters}))};
  if (options.has_ema()) made.buffers.ema.normal_();
  if (options.has_outer()) made.buffers.outer.normal_();
  return made;
}

MergeCase case_on_gpu(const MergeCase& own, int64_t skipped) {
  MergeCase copy = own;
  copy.arguments.mean = on_gpu(own.arguments.mean, skipped);
  copy.arguments.sent = on_gpu(own.arguments.sent, skipped);
  copy.arguments.weights = on_gpu(own.arguments.weights, skipped);
  copy.arguments.compute = on_gpu(own.arguments.compute, skipped);
  copy.buffers.ema = on_gpu(own.buffers.ema, skipped);
  copy.buffers.anchor = on_gpu(own.buffers.anchor, skipped);
  copy.buffers.outer = on_gpu(own.buffers.outer, skipped);
  return copy;
}

void expect_same_merge(MergeCase ours, int64_t skipped) {
  MergeCase theirs = case_on_gpu(ours, skipped);
  const MergeSums sums = merge(ours.options, ours.arguments, ours.buffers);
  const MergeSums their_sums = merge(theirs.options, theirs.arguments, theirs.buffers);
  EXPECT_TRUE(same_bits(ours.arguments.weights, theirs.arguments.weights)) << "weights";
  EXPECT_TRUE(same_bits(ours.arguments.compute, theirs.arguments.compute)) << "compute";
  EXPECT_TRUE(same_bits(ours.buffers.ema, theirs.buffers.ema)) << "ema";
  EXPECT_TRUE(same_bits(ours.buffers.anchor, theirs.buffers.anchor)) << "anchor";
  EXPECT_TRUE(same_bits(ours.buffers.outer, theirs.buffers.outer)) << "outer";
  EXPECT_EQ(sums.count, their_sums.count);
  expect_same_sums(sums.sums, their_sums.sums);
}

TEST_F(AveragingKernels, MergeGivesTheSameBits) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const auto correction : {Correction::kNone, Correction::kDelta, Correction::kEma}) {
      for (const double momentum : {0.0, 0.5}) {
        const MergeOptions options = {.correction = correction,
                                      .ema_start = 0.3,
                                      .outer_rate = momentum == 0 ? 1 : 0.7,
                                      .outer_momentum = momentum};
        for (const auto compute : {at::kFloat, at::kBFloat16, at::kBool}) {  // bool: none
          MergeCase made = random_merge(options, subset);
          if (compute != at::kBool) {
            made.arguments.compute = at::randn({subset.parameters}).to(compute);
          }
          expect_same_merge(made, skipped);
          MergeCase follows = random_merge(options, subset);
          follows.arguments.sent = at::Tensor();
          expect_same_merge(follows, skipped);
        }
      }
    }
  });
}

// There nobody could tell the owner in time that no part was finite.
TEST_F(AveragingKernels, MergeLeavesAWeightAloneWhereTheMeanIsNotFinite) {
  const Subset subset = whole(1000);
  for (const bool sent : {true, false}) {
    MergeCase made = random_merge({.outer_momentum = 0.5}, subset);
    if (!sent) made.arguments.sent = at::Tensor();
    MergeCase lost = case_on_gpu(made, 0);
    MergeCase finite = case_on_gpu(made, 0);
    auto* const mean = made.arguments.mean.mutable_data_ptr<float>();
    mean[0] = std::nanf("");
    mean[501] = kInfinity;
    mean[999] = -kInfinity;
    lost.arguments.mean = on_gpu(made.arguments.mean);
    const MergeSums sums = merge(lost.options, lost.arguments, lost.buffers);
    merge(finite.options, finite.arguments, finite.buffers);
    const at::Tensor wrong = made.arguments.mean.isfinite().logical_not();
    const auto expected = [&](const at::Tensor& old, const at::Tensor& merged) {
      return at::where(wrong, old, merged.cpu());
    };
    EXPECT_TRUE(same_bits(expected(made.arguments.weights, finite.arguments.weights),
                          lost.arguments.weights));
    EXPECT_TRUE(same_bits(expected(made.buffers.ema, finite.buffers.ema), lost.buffers.ema));
    EXPECT_TRUE(
        same_bits(expected(made.buffers.anchor, finite.buffers.anchor), lost.buffers.anchor));
    EXPECT_TRUE(same_bits(expected(made.buffers.outer, finite.buffers.outer), lost.buffers.outer));
    EXPECT_TRUE(std::isfinite(sums.drift()) && std::isfinite(sums.correction()));
  }
}

TEST_F(AveragingKernels, MergeOfStepsGivesTheSameBits) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const double smoothing : {0.0, 0.95}) {
      for (const double gain : {0.0, 1.1}) {
        for (const bool has_own : {true, false}) {
          const LowbitOptions options = {
              .smoothing = smoothing, .gain = gain, .gain_smoothing = 0.95};
          StepsCase ours = random_steps(options, subset);
          if (!has_own) ours.arguments.own = at::Tensor();
          ours.arguments.counted = smoothing == gain;
          ours.arguments.compute =
              at::zeros({subset.parameters}, gain == 0 ? at::kFloat : at::kBFloat16);
          expect_same_merge(ours, skipped);
        }
      }
    }
  });
}

void expect_same_mean(const std::vector<at::Tensor>& values, int64_t skipped, double if_none) {
  std::vector<at::Tensor> theirs;
  for (const at::Tensor& own : values) theirs.push_back(on_gpu(own, skipped));
  const FiniteMean mean = mean_of_finite(values, if_none);
  const FiniteMean their_mean = mean_of_finite(theirs, if_none);
  if (mean.mean.isfinite().all().item<bool>()) {
    EXPECT_TRUE(same_bits(mean.mean, their_mean.mean));
  } else {
    EXPECT_TRUE(their_mean.mean.isnan().all().item<bool>());
  }
  expect_same_sums(mean.sums, their_mean.sums);
  if (mean_of(values).isfinite().all().item<bool>()) {
    EXPECT_TRUE(same_bits(mean_of(values), mean_of(theirs)));
  }
}

TEST_F(AveragingKernels, MeansAreTheSameWhoeverIsFinite) {
  for (const int64_t count : {0, 1, 3, 511, 513, 100'004}) {
    for (const int parts : {1, 2, 3, 7, 64, 65, 300}) {
      if (parts > 7 && count > 1000) continue;
      for (const int64_t skipped : {0, 1}) {
        SCOPED_TRACE(testing::Message() << parts << " parts of " << count << " from " << skipped);
        std::vector<at::Tensor> values;
        for (int part = 0; part < parts; ++part) values.push_back(at::randn({count}));
        expect_same_mean(values, skipped, 0);
        if (count == 0) continue;
        values.back()[count - 1] = kInfinity;
        values.front()[0] = std::nanf("");
        expect_same_mean(values, skipped, 0);
        for (at::Tensor& own : values) own[count / 2] = -kInfinity;
        expect_same_mean(values, skipped, std::nan(""));
        expect_same_mean(values, skipped, 0);
      }
    }
  }
}

TEST_F(AveragingKernels, LargeBuffersAreTheSameToo) {
  for (const int64_t skipped : {0, 1}) {
    const Subset subset = whole(many());
    expect_same_merge(random_merge({.outer_momentum = 0.5}, subset), skipped);
    expect_same_mean({at::randn({many()}), at::randn({many()})}, skipped, 0);
    const LowbitOptions options;
    StepsCase ours = random_steps(options, subset);
    StepsCase theirs = case_on_gpu(ours, skipped);
    EXPECT_TRUE(same_bits(
        contribute_steps(options, subset, kKey, ours.arguments.weights, ours.buffers),
        contribute_steps(options, subset, kKey, theirs.arguments.weights, theirs.buffers)));
    EXPECT_TRUE(same_bits(ours.buffers.flight, theirs.buffers.flight));
  }
}

}  // namespace
}  // namespace leeway
