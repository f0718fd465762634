#include "optim/lookahead.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace leeway {
namespace {

// Counts by the definition: every microbatch of an update far from the start, one by one.
std::vector<double> counted_mix(int64_t warmup_depth, int64_t update_every) {
  std::vector<double> shares;
  const int64_t first = (warmup_depth / update_every + 3) * update_every;
  for (int64_t m = first; m < first + update_every; ++m) {
    const int64_t delay = m / update_every - (m - warmup_depth) / update_every;
    if (shares.size() <= static_cast<size_t>(delay)) shares.resize(static_cast<size_t>(delay) + 1);
    shares[static_cast<size_t>(delay)] += 1.0 / static_cast<double>(update_every);
  }
  return shares;
}

TEST(DelayMix, EqualsCountingMicrobatches) {
  for (int64_t update_every = 1; update_every <= 9; ++update_every) {
    for (int64_t depth = 0; depth <= 20; ++depth) {
      const DelayMix mix = delay_mix(depth, update_every);
      const std::vector<double> counted = counted_mix(depth, update_every);
      ASSERT_EQ(mix.shares.size(), counted.size()) << depth << " / " << update_every;
      for (size_t d = 0; d < counted.size(); ++d) EXPECT_NEAR(mix.shares[d], counted[d], 1e-12);
      EXPECT_NEAR(mix.mean(), static_cast<double>(depth) / static_cast<double>(update_every),
                  1e-12);
      EXPECT_EQ(mix.late(), depth > 0);
    }
  }
}

TEST(DelayMix, WithOneMicrobatchPerUpdateIsTheDepth) {
  EXPECT_EQ(delay_mix(3, 1).shares, (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(delay_mix(0, 1).shares, (std::vector<double>{1}));
  EXPECT_EQ(delay_mix(2, 8).shares, (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(delay_mix(8, 8).shares, (std::vector<double>{0, 1}));
}

TEST(StableRange, WithoutDelayMatchesTheClosedForm) {
  // The root leaves through -1, where z-1 is -2 and C is k + (1-k)(1-b)/(1+b).
  for (const double beta : {0.0, 0.5, 0.9, 0.99}) {
    EXPECT_NEAR(stable_range(beta, delay_mix(0, 1), 0, 0), 2 * (1 + beta) / (1 - beta), 1e-9);
    const double nesterov = 1 - beta + beta * (1 - beta) / (1 + beta);
    EXPECT_NEAR(stable_range(beta, delay_mix(0, 1), 1 - beta, 0), 2 / nesterov, 1e-9);
  }
}

TEST(StableRange, OfPlainLateGradientsMatchesTheClosedForm) {
  // w <- w - x w(tau updates ago): 2 sin(pi / (4 tau + 2)).
  for (int64_t tau = 0; tau <= 40; ++tau) {
    const double known = 2 * std::sin(std::acos(-1.0) / static_cast<double>(4 * tau + 2));
    EXPECT_NEAR(stable_range(0, delay_mix(tau, 1), 0, 0), known, 1e-10) << tau;
  }
}

TEST(StableRange, OfMomentumDoesNotDependOnTheHorizonIfNothingIsLate) {
  EXPECT_EQ(stable_range(0.9, delay_mix(0, 4), 0.1, 1), stable_range(0.9, delay_mix(0, 4), 0.1, 0));
}

struct Row {
  double beta1;
  int64_t depth;
  int64_t update_every;
  double plain, plain_digit;  // 0: not in the table
  double range, range_digit;  // matched, and the last printed digit
  double gradient_share;
  double horizon;
};

class Table : public testing::TestWithParam<Row> {};

TEST_P(Table, HasThesePlainRangesAndMatchedConstants) {
  const Row& row = GetParam();
  const DelayMix mix = delay_mix(row.depth, row.update_every);
  if (row.plain > 0) {
    EXPECT_NEAR(stable_range(row.beta1, mix, 0, 0), row.plain, row.plain_digit / 2);
  }
  const MatchedConstants matched = matched_constants(row.beta1, mix);
  EXPECT_NEAR(matched.range, row.range, row.range_digit / 2);
  EXPECT_NEAR(matched.gradient_share, row.gradient_share, 0.0005);
  EXPECT_NEAR(matched.horizon, row.horizon, 1e-12);
  EXPECT_EQ(stable_range(row.beta1, mix, matched.gradient_share, matched.horizon), matched.range);
}

// The design's first table: all microbatches late by 1, 2, 3 and 7 updates.
INSTANTIATE_TEST_SUITE_P(AllLate, Table,
                         testing::Values(Row{.9, 1, 1, 1.00, .01, 3.92, .01, .078, .70},
                                         Row{.9, 2, 1, .51, .01, 1.73, .01, .142, .60},
                                         Row{.9, 3, 1, .35, .01, 1.02, .01, .183, .55},
                                         Row{.9, 7, 1, .16, .01, .32, .01, .360, .45},
                                         Row{.95, 1, 1, 0, 0, 7.52, .01, .040, .75},
                                         Row{.95, 2, 1, 0, 0, 3.20, .01, .072, .65},
                                         Row{.95, 3, 1, 0, 0, 1.82, .01, .101, .65},
                                         Row{.95, 7, 1, 0, 0, .51, .01, .199, .55},
                                         Row{.98, 1, 1, 0, 0, 18.3, .1, .016, .80},
                                         Row{.98, 2, 1, 0, 0, 7.63, .01, .028, .75},
                                         Row{.98, 3, 1, 0, 0, 4.24, .01, .043, .70},
                                         Row{.98, 7, 1, 0, 0, 1.09, .01, .093, .65}));

// Some of the microbatches are late by one. The matched values are those of the grid with 60 steps;
// the design printed this row from a coarser one, see the next test.
INSTANTIATE_TEST_SUITE_P(SomeLate, Table,
                         testing::Values(Row{.95, 1, 8, 8.0, .1, 71.3, .1, .012, 0},
                                         Row{.95, 2, 8, 4.0, .1, 36.9, .1, .036, 0},
                                         Row{.95, 4, 8, 2.0, .1, 14.6, .1, .056, 0},
                                         Row{.95, 7, 8, 1.1, .1, 8.35, .01, .040, .70}));

TEST(StableRange, MatchesTheConstantsThatTheDesignPrintsForSomeLate) {
  // 40 geometric steps from .004 to .6: .0127, .0355, .0594, .0404, there .013, .036, .059, .040.
  const auto step = [](int i) { return 0.004 * std::pow(150, i / 39.0); };
  EXPECT_NEAR(stable_range(0.95, delay_mix(1, 8), step(9), 0), 70, 0.5);
  EXPECT_NEAR(stable_range(0.95, delay_mix(2, 8), step(17), 0), 37, 0.5);
  EXPECT_NEAR(stable_range(0.95, delay_mix(4, 8), step(21), 0), 14.6, 0.05);
  EXPECT_NEAR(stable_range(0.95, delay_mix(7, 8), step(18), 0.7), 8.35, 0.05);
}

TEST(MatchedConstants, NothingLateIsLeftToTheOptimizer) {
  const MatchedConstants matched = matched_constants(0.9, delay_mix(0, 8), 0.5);
  EXPECT_EQ(matched.gradient_share, 0);
  EXPECT_EQ(matched.horizon, 0);
  EXPECT_NEAR(matched.range, 38, 1e-9);
}

TEST(MatchedConstants, KeepAHorizonThatIsGiven) {
  const DelayMix mix = delay_mix(1, 1);
  const MatchedConstants free = matched_constants(0.9, mix);
  for (const double horizon : {0.0, 0.33, 1.0}) {
    const MatchedConstants given = matched_constants(0.9, mix, horizon);
    EXPECT_EQ(given.horizon, horizon);
    EXPECT_LT(given.range, free.range);
    EXPECT_GE(given.range, stable_range(0.9, mix, 0, horizon));
    EXPECT_EQ(given.range, stable_range(0.9, mix, given.gradient_share, horizon));
  }
  EXPECT_EQ(matched_constants(0.9, mix, free.horizon).gradient_share, free.gradient_share);
}

TEST(MatchedConstants, TiesGoToTheSmaller) {
  // Without momentum k changes nothing: every k ties.
  EXPECT_EQ(matched_constants(0, delay_mix(2, 1)).gradient_share, 0);
}

TEST(LookaheadDeathTest, StopsOnInvalidArguments) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(delay_mix(1, 0), "an update has at least one microbatch");
  EXPECT_DEATH(delay_mix(-1, 1), "warm-up depth is not negative");
  EXPECT_DEATH(stable_range(1, delay_mix(1, 1), 0, 0), "beta1 is in");
}

}  // namespace
}  // namespace leeway
