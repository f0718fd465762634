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
  }
}

TEST(Cost, RecomputeAddsAForwardToEveryBackward) {
  const CostOptions plain = {.flops_per_second = 1e9, .microbatch_tokens = 64};
  CostOptions again = plain;
  again.recompute = true;
  const auto costs = model_costs(kShape, 2, again);
  EXPECT_EQ(costs[0].backward.count, 3 * costs[0].forward.count);
  EXPECT_EQ(costs[1].forward.count, 1) << "the last stage's backward makes it";
  const auto before = model_costs(kShape, 2, plain);
  EXPECT_EQ(costs[1].backward.count, before[1].forward.count + before[1].backward.count);
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
  const auto of = [&](WorkKind kind) { return costs.of({.kind = kind}).count; };
  EXPECT_EQ(of(WorkKind::kForward), 1);
  EXPECT_EQ(of(WorkKind::kBackward), 2);
  EXPECT_EQ(of(WorkKind::kUpdate), 3);
  EXPECT_EQ(of(WorkKind::kSave), 4);
  EXPECT_EQ(of(WorkKind::kEvaluate), 5);
}

// In proportion to what is touched: an owner decodes a part of its chunk from every contributor.
TEST(Cost, AReductionCostsAPartPerContribution) {
  const StageCosts costs = {.rounds = {{100}, {3}, {20}, {7}}, .copies = {{1000}, {30}, {200}}};
  const auto of = [&](Work work) { return costs.of(work).count; };
  const ReplicaSet five = ReplicaSet::first(5);
  EXPECT_EQ(of({.kind = WorkKind::kContribute, .replicas = ReplicaSet::of({2})}), 100);
  EXPECT_EQ(of({.kind = WorkKind::kReduce, .replicas = five}), 20 + 5 * 3);
  EXPECT_EQ(of({.kind = WorkKind::kMerge}), 7);
  EXPECT_EQ(of({.kind = WorkKind::kReduce, .lane = Lane::kEvaluation, .replicas = five}),
            200 + 5 * 30);
  // A common model may have several contributions of one replica in an answer.
  const std::vector<PartId> parts = {{{0}, 1}, {{0}, 2}, {{1}, 2}};
  EXPECT_EQ(of({.kind = WorkKind::kReduce, .replicas = ReplicaSet::first(2), .parts = parts}),
            20 + 3 * 3);
  EXPECT_EQ(of({.kind = WorkKind::kContribute}), 0) << "of one that only says where it is";
  EXPECT_EQ(of({.kind = WorkKind::kReduce}), 0);
  EXPECT_EQ(at_speed(costs, 0.5).rounds.part.count, 6);
}

}  // namespace
}  // namespace leeway::sim
