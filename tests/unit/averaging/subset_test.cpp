#include "averaging/subset.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../../support/subsets.h"

namespace leeway {
namespace {

Cut cut_of(double fraction, int64_t parameters = 1000, int64_t granularity = 1) {
  return Cut({.seed = 7,
              .stage = StageId{0},
              .parameters = parameters,
              .fraction = fraction,
              .granularity = granularity});
}

TEST(Cut, HasAsManyPartsAsTheFractionAsksFor) {
  EXPECT_EQ(cut_of(0.05).parts(), 20);
  EXPECT_EQ(cut_of(1.0 / 3).parts(), 3);
  EXPECT_EQ(cut_of(0.3).parts(), 4);  // the effective fraction is a quarter
  EXPECT_EQ(cut_of(0.999).parts(), 2);
  EXPECT_EQ(cut_of(1).parts(), 1);
  for (int64_t parts = 1; parts < 2000; ++parts) {
    EXPECT_EQ(cut_of(1.0 / static_cast<double>(parts)).parts(), parts);
  }
}

TEST(Cut, OfEverythingIsContiguousAndItsChunksKeepWireBlocksWhole) {
  const Subset subset = cut_of(1, 10'000).subset(5);
  EXPECT_EQ(subset.count(), 10'000);
  int64_t end = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const Subset chunk = subset.chunk(i, 4);
    EXPECT_EQ(chunk.begin(0), end);
    EXPECT_EQ(chunk.begin(0) % 512, 0);
    end = chunk.begin(0) + chunk.count();
    EXPECT_NEAR(static_cast<double>(chunk.count()), 2500.0, 512.0);
  }
  EXPECT_EQ(end, 10'000);
}

TEST(Cut, IsFreshInEachCycleAndForEachStageAndSeed) {
  const CutOptions options = {
      .seed = 1, .stage = StageId{0}, .parameters = 4000, .fraction = 0.1, .granularity = 4};
  const Subset first = Cut(options).subset(3);
  CutOptions other_stage = options;
  other_stage.stage = StageId{1};
  CutOptions other_seed = options;
  other_seed.seed = 2;
  // A tenth of the groups agree by chance: 10 of 100, and hardly ever 30.
  const auto agreeing = [&](const Subset& other) {
    size_t count = 0;
    for (int64_t i = 0; i < first.runs; ++i) {
      if (first.begin(i) == other.begin(i)) ++count;
    }
    return count;
  };
  EXPECT_EQ(first.runs, 100);
  EXPECT_LT(agreeing(Cut(options).subset(13)), 30U);
  EXPECT_LT(agreeing(Cut(other_stage).subset(3)), 30U);
  EXPECT_LT(agreeing(Cut(other_seed).subset(3)), 30U);
  EXPECT_EQ(begins_of(Cut(options).subset(3)), begins_of(first));
}

TEST(Cut, GivesEveryRunTheSameChanceInEveryPart) {
  constexpr int64_t kRuns = 33;  // six groups of five and an incomplete one
  constexpr int64_t kCycles = 4000;
  const Cut cut = cut_of(0.2, kRuns);
  std::vector<int64_t> visits(kRuns);
  for (int64_t cycle = 0; cycle < kCycles; ++cycle) {
    for (const int64_t begin : begins_of(cut.subset(5 * cycle + 2))) {
      ++visits[static_cast<size_t>(begin)];
    }
  }
  const double expected = kCycles / 5.0;
  const double deviation = std::sqrt(kCycles * 0.2 * 0.8);
  for (const int64_t count : visits) {
    EXPECT_NEAR(static_cast<double>(count), expected, 5 * deviation);
  }
}

TEST(Cut, NeighbouringGroupsAreIndependent) {
  constexpr int64_t kGroups = 40'000;
  const Subset subset = cut_of(0.25, 4 * kGroups).subset(1);
  std::vector<int64_t> pairs(16);
  for (int64_t group = 1; group < subset.runs; ++group) {
    const int64_t pair = subset.begin(group - 1) % 4 * 4 + subset.begin(group) % 4;
    ++pairs[static_cast<size_t>(pair)];
  }
  const double deviation = std::sqrt(kGroups / 16.0);
  for (const int64_t count : pairs) {
    EXPECT_NEAR(static_cast<double>(count), kGroups / 16.0, 5 * deviation);
  }
}

TEST(Cut, OfNothingIsNothing) {
  for (const double fraction : {0.05, 1.0}) {
    const Cut cut = cut_of(fraction, 0);
    EXPECT_EQ(cut.subset(0).count(), 0);
    EXPECT_EQ(cut.count(0), 0);
    EXPECT_EQ(cut.subset(0).chunk(1, 3).count(), 0);
  }
}

// The CPU lists what the formula says, on any number of threads.
TEST(Gather, IsTheSameForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const Subset subset = cut_of(0.05, 4'000'000).subset(7);
  const at::Tensor places = at::arange(4'000'000, at::kDouble);
  at::set_num_threads(1);
  const at::Tensor alone = gather(subset, places);
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(gather(subset, places), alone));
  EXPECT_TRUE(at::equal(alone, at::tensor(begins_of(subset), at::kDouble)));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace leeway
