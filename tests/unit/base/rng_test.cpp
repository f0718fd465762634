#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace leeway {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kDraws = 200'000;

// From a second implementation, in Python. The weights, windows and splits of every run depend on
// this function, so it must never change by accident.
TEST(Rng, GoldenValues) {
  const RandomKey zero = {.seed = 0, .stream = Stream::kWeights, .name = 0};
  const RandomKey small = {.seed = 1, .stream = Stream::kSampler, .name = 3};
  const RandomKey large = {.seed = kMax, .stream = Stream::kSplit, .name = kMax};
  EXPECT_EQ(random_bits(zero, 0), 0xebff26ab1d6bd43aULL);
  EXPECT_EQ(random_bits(small, 4), 0xaf25f9d8f73107e5ULL);
  EXPECT_EQ(random_bits(large, kMax), 0x8fa69992b7c3006fULL);
  EXPECT_EQ(random_uniform(zero, 0), 0.9218620460282374);
  EXPECT_EQ(random_uniform(small, 4), 0.6841732172680999);
  EXPECT_NEAR(random_normal(zero, 0), 2.150526980962732, 1e-14);
  EXPECT_NEAR(random_normal(small, 4), -1.5130794602153692, 1e-14);
  EXPECT_NEAR(random_normal(large, kMax), -1.248964625936072, 1e-14);
}

TEST(KeyedPermutation, GoldenValues) {
  const KeyedPermutation small({.seed = 1, .stream = Stream::kSampler, .name = 0}, 10);
  const KeyedPermutation large({.seed = 7, .stream = Stream::kSampler, .name = 1},
                               1'000'000'000'000);
  const std::vector<uint64_t> small_values = {4, 2, 7, 1, 8, 9, 6, 3, 0, 5};
  const std::vector<uint64_t> large_values = {325900390365, 163201712690, 354463050798,
                                              47299632880,  670631065002, 942168410215};
  for (uint64_t i = 0; i < small_values.size(); ++i) EXPECT_EQ(small(i), small_values[i]);
  for (uint64_t i = 0; i < large_values.size(); ++i) EXPECT_EQ(large(i), large_values[i]);
}

TEST(Rng, UniformHasTheMomentsOfUniform) {
  const RandomKey key = {.seed = 5};
  double sum = 0.0;
  double squares = 0.0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = random_uniform(key, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  // Five standard errors, which are 0.289 and 0.298 over the root of the count.
  const double error = 5.0 * 0.3 / std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(sum / kDraws, 1.0 / 2.0, error);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3.0, error);
}

TEST(Rng, NormalHasTheMomentsOfNormal) {
  const RandomKey key = {.seed = 6};
  double moments[5] = {};
  uint64_t beyond_three = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = random_normal(key, i);
    ASSERT_TRUE(std::isfinite(x));
    double power = 1.0;
    for (double& moment : moments) {
      moment += power / kDraws;
      power *= x;
    }
    if (std::abs(x) > 3.0) ++beyond_three;
  }
  const double error = 5.0 / std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(moments[1], 0.0, error);
  EXPECT_NEAR(moments[2], 1.0, std::sqrt(2.0) * error);
  EXPECT_NEAR(moments[3], 0.0, std::sqrt(15.0) * error);
  EXPECT_NEAR(moments[4], 3.0, std::sqrt(96.0) * error);
  EXPECT_NEAR(static_cast<double>(beyond_three) / kDraws, 0.0027, 0.0006);
}

TEST(Rng, EveryBitIsSetHalfTheTime) {
  for (int bit = 0; bit < 64; ++bit) {
    uint64_t set = 0;
    for (uint64_t i = 0; i < 20'000; ++i) set += random_bits({.seed = 9}, i) >> bit & 1;
    EXPECT_NEAR(static_cast<double>(set), 10'000.0, 5.0 * 71.0) << "bit " << bit;
  }
}

double correlation(const RandomKey& a, const RandomKey& b, uint64_t shift) {
  double sum = 0.0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    sum += random_normal(a, i) * random_normal(b, i + shift) / kDraws;
  }
  return sum;
}

TEST(Rng, NeighbouringKeysAndCountersAreIndependent) {
  const RandomKey key = {.seed = 3, .stream = Stream::kWeights, .name = 8};
  const double error = 5.0 / std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(correlation(key, key, 1), 0.0, error);
  EXPECT_NEAR(correlation(key, {.seed = 4, .stream = Stream::kWeights, .name = 8}, 0), 0, error);
  EXPECT_NEAR(correlation(key, {.seed = 3, .stream = Stream::kSampler, .name = 8}, 0), 0, error);
  EXPECT_NEAR(correlation(key, {.seed = 3, .stream = Stream::kWeights, .name = 9}, 0), 0, error);
  // Moving one unit between the parts of a key changes the sequence: they are not just summed.
  EXPECT_NEAR(correlation(key, {.seed = 4, .stream = Stream::kWeights, .name = 7}, 0), 0, error);
  EXPECT_NEAR(correlation(key, key, 0), 1.0, std::sqrt(2.0) * error);  // the test can fail
}

TEST(KeyedPermutation, EpochsAreShuffledDifferently) {
  const uint64_t count = 10'000;
  const KeyedPermutation first({.seed = 1, .stream = Stream::kSampler, .name = 0}, count);
  const KeyedPermutation second({.seed = 1, .stream = Stream::kSampler, .name = 1}, count);
  uint64_t same = 0;
  uint64_t fixed = 0;
  double distance = 0.0;
  for (uint64_t i = 0; i < count; ++i) {
    same += first(i) == second(i);
    fixed += first(i) == i;
    const auto step = static_cast<double>(first(i)) - static_cast<double>(first((i + 1) % count));
    distance += std::abs(step) / static_cast<double>(count * count);
  }
  EXPECT_LT(same, 10u);                    // one is expected
  EXPECT_LT(fixed, 10u);                   // likewise
  EXPECT_NEAR(distance, 1.0 / 3.0, 0.02);  // as for two uniform numbers
}

TEST(KeyedPermutation, OneElement) {
  const KeyedPermutation only({.seed = 1}, 1);
  EXPECT_EQ(only(0), 0u);
  EXPECT_EQ(only.count(), 1u);
}

TEST(KeyedPermutation, LargestCount) {
  const KeyedPermutation huge({.seed = 1}, uint64_t{1} << 62);
  EXPECT_LT(huge((uint64_t{1} << 62) - 1), uint64_t{1} << 62);
}

TEST(KeyedPermutationDeath, RejectsArgumentsOutOfRange) {
  const KeyedPermutation ten({.seed = 1}, 10);
  EXPECT_DEATH(ten(10), "position outside");
  EXPECT_DEATH(KeyedPermutation({.seed = 1}, 0), "empty permutation");
  EXPECT_DEATH(KeyedPermutation({.seed = 1}, (uint64_t{1} << 62) + 1), "at most 31 bits");
}

}  // namespace
}  // namespace leeway
