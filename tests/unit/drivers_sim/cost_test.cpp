#include "drivers/sim/cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace leeway::sim {
namespace {

constexpr ModelShape kShape = {.layers = 4,
                               .width = 8,
                               .heads = 2,
                               .kv_heads = 2,
                               .hidden = 16,
                               .context = 32,
                               .vocabulary = 257};

TEST(Cost, FollowsTheMultiplyAddsOfTheSlice) {
  const CostOptions options = {
      .flops_per_second = 1e9, .microbatch_tokens = 64, .evaluation_tokens = 32};
  const auto costs = model_costs(kShape, 2, options);
  const auto slices = cut_into_stages(kShape, 2);
  ASSERT_EQ(costs.size(), 2U);
  for (size_t s = 0; s < 2; ++s) {
    // 1e9 operations per second: one per nanosecond.
    const auto forward = static_cast<int64_t>(2 * slice_cost(kShape, slices[s]) * 64);
    EXPECT_EQ(costs[s].forward.count, forward);
    EXPECT_EQ(costs[s].backward.count, 2 * forward);
    EXPECT_EQ(costs[s].evaluate.count, forward / 2);
    EXPECT_EQ(costs[s].update.count, 20 * parameter_count(slice_layout(kShape, slices[s])));
    EXPECT_EQ(costs[s].save.count, 0);
    const auto parameters = static_cast<double>(parameter_count(slice_layout(kShape, slices[s])));
    EXPECT_EQ(costs[s].round.count, std::llround(0.1 * parameters));  // 2 for each of a twentieth
  }
}

TEST(Cost, RecomputeAddsAForwardToEveryBackward) {
  const auto costs =
      model_costs(kShape, 1, {.flops_per_second = 1e9, .microbatch_tokens = 64, .recompute = true});
  EXPECT_EQ(costs[0].backward.count, 3 * costs[0].forward.count);
}

TEST(Cost, SpeedsAreFactorsByStage) {
  const CostOptions plain = {.flops_per_second = 1e9, .microbatch_tokens = 64};
  CostOptions mixed = plain;
  mixed.speeds = {0.5, 2.0};
  const auto a = model_costs(kShape, 2, plain);
  const auto b = model_costs(kShape, 2, mixed);
  EXPECT_EQ(b[0].forward.count, 2 * a[0].forward.count);
  EXPECT_EQ(b[1].backward.count, a[1].backward.count / 2);
}

TEST(Cost, SavingTakesTimeOnlyWithADisk) {
  const auto costs = model_costs(kShape, 1,
                                 {.flops_per_second = 1e9,
                                  .speeds = {4},
                                  .microbatch_tokens = 1,
                                  .save_bytes_per_second = 1e9});
  EXPECT_EQ(costs[0].save.count, 12 * parameter_count(slice_layout(kShape, whole_model(kShape))));
}

TEST(Cost, NothingIsFasterThanANanosecond) {
  const auto costs = model_costs(kShape, 1, {.flops_per_second = 1e24, .microbatch_tokens = 1});
  EXPECT_EQ(costs[0].forward.count, 1);
  EXPECT_EQ(costs[0].update.count, 1);
  EXPECT_EQ(at_speed({.forward = {3}, .backward = {0}}, 1e6).forward.count, 1);
  EXPECT_EQ(at_speed({.forward = {3}, .backward = {0}}, 1e6).backward.count, 0);
}

TEST(Cost, OfEachKind) {
  const StageCosts costs = {{1}, {2}, {3}, {4}, {5}};
  EXPECT_EQ(costs.of(WorkKind::kForward).count, 1);
  EXPECT_EQ(costs.of(WorkKind::kBackward).count, 2);
  EXPECT_EQ(costs.of(WorkKind::kUpdate).count, 3);
  EXPECT_EQ(costs.of(WorkKind::kSave).count, 4);
  EXPECT_EQ(costs.of(WorkKind::kEvaluate).count, 5);
}

}  // namespace
}  // namespace leeway::sim
