#include "averaging/merge.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../../support/reference_merge.h"
#include "../../support/subsets.h"

namespace leeway {
namespace {

TEST(EmaConstant, StaysForAThousandRoundsThenRisesToTheLast) {
  const MergeOptions options = {.ema_start = 0.5, .ema_end = 0.99, .run_rounds = 5001};
  EXPECT_EQ(ema_constant(options, 0), 0.5);
  EXPECT_EQ(ema_constant(options, 1000), 0.5);
  EXPECT_GT(ema_constant(options, 1001), 0.5);
  EXPECT_NEAR(ema_constant(options, 3000), 0.745, 1e-12);
  EXPECT_DOUBLE_EQ(ema_constant(options, 5000), 0.99);
  EXPECT_DOUBLE_EQ(ema_constant(options, 6000), 0.99);  // a fleet may run a little longer
  for (int64_t round = 1001; round < 5001; ++round) {
    EXPECT_GT(ema_constant(options, round), ema_constant(options, round - 1));
  }
}

TEST(EmaConstant, StaysInAShortRun) {
  for (const int64_t rounds : {0, 1, 600, 1001}) {
    EXPECT_EQ(ema_constant({.run_rounds = rounds}, rounds), 0.5);
  }
  EXPECT_EQ(ema_constant({.run_rounds = 1002}, 1001), 0.99);
}

TEST(MergeBuffers, AreThoseThatTheRuleNeeds) {
  const at::Tensor weights = at::randn({5});
  const MergeBuffers none = make_merge_buffers({.correction = Correction::kDelta}, weights);
  EXPECT_FALSE(none.ema.defined() || none.anchor.defined() || none.outer.defined());
  const MergeBuffers all = make_merge_buffers({.outer_momentum = 0.5}, weights);
  EXPECT_TRUE(at::equal(all.ema, at::zeros({5})));
  EXPECT_TRUE(at::equal(all.anchor, weights));
  EXPECT_TRUE(at::equal(all.outer, at::zeros({5})));
  weights.zero_();
  EXPECT_FALSE(at::equal(all.anchor, weights));
}

// Weights 10 were sent, are 13 now, and the mean is 8.
double merged_once(const MergeOptions& options, MergeSums* norms = nullptr) {
  const at::Tensor weights = at::full({1}, 13.0);
  MergeBuffers buffers = make_merge_buffers(options, weights);
  const MergeSums own = merge(options,
                              {.subset = whole(1),
                               .mean = at::full({1}, 8.0),
                               .sent = at::full({1}, 10.0),
                               .weights = weights},
                              buffers);
  if (norms != nullptr) *norms = own;
  return weights.item<double>();
}

TEST(Merge, TreatsOwnStepsAsTheCorrectionSays) {
  MergeSums norms;
  EXPECT_EQ(merged_once({.correction = Correction::kNone}, &norms), 8.0);
  EXPECT_EQ(norms.count, 1);
  EXPECT_EQ(norms.drift(), 9.0);
  EXPECT_EQ(norms.correction(), 25.0);
  EXPECT_EQ(merged_once({.correction = Correction::kDelta}, &norms), 11.0);
  EXPECT_EQ(norms.drift(), 9.0);
  EXPECT_EQ(norms.correction(), 4.0);
  EXPECT_EQ(merged_once({.correction = Correction::kEma}), 9.5);
  EXPECT_EQ(merged_once({.correction = Correction::kEma, .ema_start = 0.25}), 10.25);
}

TEST(Merge, WithoutOwnStepsTakesTheMeanEvenIfWeightsAreLost) {
  for (const Correction correction : {Correction::kNone, Correction::kDelta, Correction::kEma}) {
    const at::Tensor weights = at::full({3}, std::numeric_limits<float>::infinity());
    const MergeOptions options = {.correction = correction};
    MergeBuffers buffers = make_merge_buffers(options, weights);
    const MergeSums norms =
        merge(options, {.subset = whole(3), .mean = at::ones({3}), .weights = weights}, buffers);
    EXPECT_TRUE(at::equal(weights, at::ones({3})));
    EXPECT_EQ(norms.drift(), 0.0);
  }
}

TEST(Merge, OuterMomentumEqualsItsScalarForm) {
  const MergeOptions options = {
      .correction = Correction::kNone, .outer_rate = 0.7, .outer_momentum = 0.9};
  const at::Tensor weights = at::full({1}, 2.0, at::kDouble);
  MergeBuffers buffers = make_merge_buffers(options, weights);
  double x = 2;
  double b = 0;
  for (int64_t round = 0; round < 30; ++round) {
    const double mean = std::sin(static_cast<double>(round));
    const double g = x - mean;
    b = 0.9 * b + g;
    x = x - 0.7 * (g + 0.9 * b);
    merge(options,
          {.subset = whole(1),
           .mean = at::full({1}, mean, at::kDouble),
           .sent = weights.clone(),
           .weights = weights},
          buffers);
    EXPECT_NEAR(weights.item<double>(), x, 1e-13);
  }
}

// A replica that was away comes back with an old anchor: what the mean has moved meanwhile is not
// one round's progress, and must not carry it past the mean.
TEST(Merge, AFollowerLandsOnTheMeanAndNotPastIt) {
  for (const Correction correction : {Correction::kNone, Correction::kDelta, Correction::kEma}) {
    const MergeOptions options = {.correction = correction, .outer_momentum = 0.5};
    for (const bool reference : {false, true}) {
      const at::Tensor weights = at::full({3}, 2.0);
      MergeBuffers buffers = make_merge_buffers(options, weights);
      buffers.outer.fill_(4);
      if (options.has_ema()) buffers.ema.fill_(8);
      const Subset first_two = first_of(2, 3);
      const MergeArguments following = {
          .subset = first_two, .mean = at::full({2}, 10.0), .weights = weights};
      const MergeSums norms = reference ? reference_merge(options, following, buffers)
                                        : merge(options, following, buffers);
      EXPECT_TRUE(at::equal(weights, at::tensor({10.0F, 10.0F, 2.0F})));
      EXPECT_TRUE(at::equal(buffers.anchor, at::tensor({10.0F, 10.0F, 2.0F})));
      EXPECT_TRUE(at::equal(buffers.outer, at::tensor({0.0F, 0.0F, 4.0F})));
      if (options.has_ema()) {
        EXPECT_TRUE(at::equal(buffers.ema, at::tensor({4.0F, 4.0F, 8.0F})));
      }
      EXPECT_EQ(norms.drift(), 0.0);
      EXPECT_EQ(norms.correction(), 128.0);
    }
  }
}

TEST(Merge, UpdatesTheComputeCopyOfTheSubsetOnly) {
  const Cut cut({.seed = 1, .parameters = 5000, .fraction = 0.25, .granularity = 3});
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const auto compute_type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const at::Tensor weights = at::randn({5000}, type);
      const at::Tensor old = weights.clone();
      const at::Tensor compute = at::full({5000}, 77.0, compute_type);
      const Subset subset = cut.subset(1);
      MergeBuffers buffers = make_merge_buffers({}, weights);
      const at::Tensor mean = at::randn({subset.count()}, type);
      merge({}, {.subset = subset, .mean = mean, .weights = weights, .compute = compute}, buffers);
      EXPECT_TRUE(at::equal(gather(subset, compute), mean.to(compute_type)));
      EXPECT_EQ((compute != 77.0).sum().item<int64_t>(), subset.count());
      EXPECT_TRUE(at::equal(gather(subset, weights), mean));
      EXPECT_EQ((weights != old).sum().item<int64_t>(), subset.count());
    }
  }
}

TEST(Merge, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const MergeOptions options = {.outer_momentum = 0.5};
  const Cut cut({.seed = 1, .parameters = 2'000'003, .fraction = 0.3, .granularity = 64});
  const Subset subset = cut.subset(2);
  const at::Tensor start = at::randn({2'000'003});
  const at::Tensor mean = at::randn({subset.count()});
  const at::Tensor sent = at::randn({subset.count()});
  const auto run = [&](int count, at::Tensor& weights, MergeBuffers& buffers) {
    at::set_num_threads(count);
    weights = start.clone();
    buffers = make_merge_buffers(options, weights);
    return merge(options, {.subset = subset, .mean = mean, .sent = sent, .weights = weights},
                 buffers);
  };
  at::Tensor alone, weights;
  MergeBuffers alone_buffers, buffers;
  const MergeSums alone_norms = run(1, alone, alone_buffers);
  const FiniteMean alone_mean = mean_of_finite({mean, sent});
  const MergeSums norms = run(2, weights, buffers);
  EXPECT_TRUE(at::equal(weights, alone));
  EXPECT_TRUE(at::equal(buffers.ema, alone_buffers.ema));
  EXPECT_TRUE(at::equal(buffers.outer, alone_buffers.outer));
  EXPECT_EQ(norms.drift(), alone_norms.drift());
  EXPECT_EQ(norms.correction(), alone_norms.correction());
  EXPECT_TRUE(at::equal(mean_of_finite({mean, sent}).mean, alone_mean.mean));
  EXPECT_TRUE(at::equal(mean_of_finite({mean, sent}).sums, alone_mean.sums));
  at::set_num_threads(threads);
}

// Without gradients and without lag, every part of a cycle removes its share of the spread.
TEST(Merge, SpreadFallsByAnEqualShareInEachRoundOfACycle) {
  constexpr int64_t kParts = 5;
  constexpr int kSeeds = 500;
  std::vector<double> sums(kParts + 1), squares(kParts + 1);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Cut cut({.seed = seed, .parameters = 43, .fraction = 0.2, .granularity = 2});
    std::vector<at::Tensor> weights;
    for (int r = 0; r < 3; ++r) weights.push_back(at::randn({43}, at::kDouble));
    const double before = spread_of(weights, mean_of(weights));
    for (int64_t round = 0; round < kParts; ++round) {
      const Subset subset = cut.subset(round);
      std::vector<at::Tensor> sent;
      for (const at::Tensor& own : weights) sent.push_back(gather(subset, own));
      for (size_t r = 0; r < weights.size(); ++r) {
        MergeBuffers none;
        merge({.correction = Correction::kDelta},
              {.subset = subset, .mean = mean_of(sent), .sent = sent[r], .weights = weights[r]},
              none);
      }
      const double share = spread_of(weights, mean_of(weights)) / before;
      sums[static_cast<size_t>(round + 1)] += share;
      squares[static_cast<size_t>(round + 1)] += share * share;
    }
  }
  for (int64_t round = 1; round < kParts; ++round) {
    const double mean = sums[static_cast<size_t>(round)] / kSeeds;
    const double variance = squares[static_cast<size_t>(round)] / kSeeds - mean * mean;
    const double expected = 1 - static_cast<double>(round) / kParts;
    EXPECT_NEAR(mean, expected, 4 * std::sqrt(variance / kSeeds)) << "after " << round;
  }
  EXPECT_LT(sums[kParts], 1e-25);
}

}  // namespace
}  // namespace leeway
