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

// Three updates of two replicas with a batch of six, then two of three replicas, in microbatches of
// another size, then again one: together they read every position once, in order.
TEST(Sampler, GoesOnWhereAnotherNumberOfReplicasWas) {
  struct Session {
    int64_t replicas, microbatch, updates;
  };
  constexpr int64_t kBatch = 6;
  const SamplerOptions whole{.seed = 5, .window_count = 40, .replicas = 1, .microbatch = 1};
  int64_t position = 0, updates = 0;
  for (const auto& [replicas, microbatch, more] :
       {Session{2, 3, 3}, Session{3, 2, 2}, Session{1, 6, 4}}) {
    SamplerOptions options{
        .seed = 5, .window_count = 40, .replicas = replicas, .microbatch = microbatch};
    options.shift = position - updates * kBatch * replicas;
    const int64_t first = updates * kBatch / microbatch;
    updates += more;
    for (int64_t m = first; m < updates * kBatch / microbatch; ++m) {
      for (int64_t r = 0; r < replicas; ++r) {
        for (int64_t i = 0; i < microbatch; ++i, ++position) {
          EXPECT_EQ(window_at(options, {m}, {r}, i), window_at(whole, {position}, {0}, 0));
        }
      }
    }
  }
  EXPECT_EQ(position, (2 * 3 + 3 * 2 + 1 * 4) * kBatch);
}

TEST(SamplerDeathTest, RejectsArgumentsOutOfRange) {
  const SamplerOptions options{.seed = 1, .window_count = 10, .replicas = 2, .microbatch = 3};
  EXPECT_DEATH(window_at(options, {0}, {2}, 0), "outside the mesh");
  EXPECT_DEATH(window_at(options, {0}, {0}, 3), "outside the microbatch");
  EXPECT_DEATH(window_at({.seed = 1}, {0}, {0}, 0), "no window");
}

}  // namespace
}  // namespace leeway
