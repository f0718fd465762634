#include "data/sampler.h"

#include <gtest/gtest.h>

#include <set>

namespace leeway {
namespace {

TEST(Sampler, CountsWindowsWithTheirTargets) {
  EXPECT_EQ(window_count_of(0, 4), 0U);
  EXPECT_EQ(window_count_of(4, 4), 0U);  // four inputs, but the last has no target
  EXPECT_EQ(window_count_of(5, 4), 1U);
  EXPECT_EQ(window_count_of(8, 4), 1U);
  EXPECT_EQ(window_count_of(9, 4), 2U);
  EXPECT_EQ(window_count_of(2, 1), 1U);
}

TEST(Sampler, EpochsDiffer) {
  const SamplerOptions options{.seed = 3, .window_count = 50, .replicas = 1, .microbatch = 1};
  int same = 0;
  for (int64_t m = 0; m < 50; ++m) {
    same += window_at(options, {m}, {0}, 0) == window_at(options, {m + 50}, {0}, 0) ? 1 : 0;
  }
  EXPECT_LT(same, 10);
}

TEST(Sampler, SeedsDiffer) {
  SamplerOptions options{.seed = 3, .window_count = 1000, .replicas = 1, .microbatch = 1};
  const uint64_t first = window_at(options, {0}, {0}, 0);
  std::set<uint64_t> seen = {first};
  for (options.seed = 4; options.seed < 20; ++options.seed) {
    seen.insert(window_at(options, {0}, {0}, 0));
  }
  EXPECT_GT(seen.size(), 10U);
}

// Runs must be repeatable: a change of the sampler would silently change every run.
TEST(Sampler, NeverChanges) {
  const SamplerOptions options{.seed = 1, .window_count = 1000, .replicas = 2, .microbatch = 3};
  EXPECT_EQ(window_at(options, {0}, {0}, 0), 560U);
  EXPECT_EQ(window_at(options, {7}, {1}, 2), 837U);
  EXPECT_EQ(window_at(options, {500}, {0}, 1), 813U);
}

TEST(SamplerDeathTest, RejectsArgumentsOutOfRange) {
  const SamplerOptions options{.seed = 1, .window_count = 10, .replicas = 2, .microbatch = 3};
  EXPECT_DEATH(window_at(options, {0}, {2}, 0), "outside the mesh");
  EXPECT_DEATH(window_at(options, {0}, {0}, 3), "outside the microbatch");
  EXPECT_DEATH(window_at({.seed = 1}, {0}, {0}, 0), "no window");
}

}  // namespace
}  // namespace leeway
