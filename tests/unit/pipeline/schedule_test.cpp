#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

// What a stage that never waits does until `updates` are done: F, B and U in order.
std::string order_of(const PipelineShape& shape, int64_t stage, int64_t updates) {
  const Schedule schedule(shape, {stage});
  Counts at;
  std::string order;
  while (at.updates < updates) {
    const UpdateId flush = {shape.synchronous() ? at.updates + 1 : updates};
    if (schedule.update_due(at)) {
      ++at.updates;
      order += 'U';
    } else if (schedule.wants_forward(at, flush)) {
      ++at.forwards;
      order += 'F';
    } else if (schedule.wants_backward(at, flush)) {
      ++at.backwards;
      order += 'B';
    } else {
      return order + " stuck";
    }
  }
  return order;
}

TEST(Schedule, AsyncNeverDrainsBetweenUpdates) {
  const PipelineShape shape = {.order = PipelineSchedule::kAsync, .stages = 3, .update_every = 2};
  EXPECT_EQ(order_of(shape, 0, 3), "FFFBFBUFBFBUBBU");
  EXPECT_EQ(order_of(shape, 2, 2), "FBFBUFBFBU");
}

TEST(Schedule, OneForwardOneBackwardDrainsAtEachUpdate) {
  const PipelineShape shape = {.order = PipelineSchedule::k1f1b, .stages = 3, .update_every = 4};
  EXPECT_EQ(order_of(shape, 0, 2), "FFFBFBBBUFFFBFBBBU");
  EXPECT_EQ(order_of(shape, 2, 1), "FBFBFBFBU");
}

TEST(Schedule, GpipeDoesAllForwardsFirst) {
  const PipelineShape shape = {.order = PipelineSchedule::kGpipe, .stages = 3, .update_every = 3};
  for (const int64_t stage : {0, 1, 2}) EXPECT_EQ(order_of(shape, stage, 2), "FFFBBBUFFFBBBU");
}

TEST(Schedule, DepthGrowsWithDistanceFromTheEndAndWithExtra) {
  PipelineShape shape = {.order = PipelineSchedule::kAsync, .stages = 4, .update_every = 1};
  for (int64_t s = 0; s < 4; ++s) EXPECT_EQ(Schedule(shape, {s}).warmup(), 3 - s);
  shape.extra_per_hop = 2;
  for (int64_t s = 0; s < 4; ++s) EXPECT_EQ(Schedule(shape, {s}).warmup(), 3 * (3 - s));
}

// The closed formula equals the delay that the order of the work causes.
TEST(Schedule, TheDelayOfAForwardMatchesTheFormula) {
  for (const PipelineSchedule order :
       {PipelineSchedule::kAsync, PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
    for (const int64_t every : {1, 2, 3, 7}) {
      for (const int64_t extra : {0, 1, 3}) {
        const PipelineShape shape = {
            .order = order, .stages = 4, .update_every = every, .extra_per_hop = extra};
        for (int64_t s = 0; s < 4; ++s) {
          const Schedule schedule(shape, {s});
          Counts at;
          int64_t sum = 0, most = 0;
          const int64_t updates = 40;
          const int64_t settled = 20 * every;
          while (at.updates < updates) {
            const UpdateId flush = {shape.synchronous() ? at.updates + 1 : updates};
            if (schedule.update_due(at)) {
              ++at.updates;
            } else if (schedule.wants_forward(at, flush)) {
              const int64_t delay = schedule.delay({at.forwards}, {at.updates});
              ASSERT_EQ(delay, schedule.expected_delay(at.forwards));
              if (at.forwards >= settled) sum += delay;
              most = std::max(most, delay);
              ++at.forwards;
            } else {
              ASSERT_TRUE(schedule.wants_backward(at, flush));
              ++at.backwards;
            }
          }
          EXPECT_EQ(most, schedule.delay_max());
          EXPECT_DOUBLE_EQ(static_cast<double>(sum) / static_cast<double>(20 * every),
                           schedule.delay_mean());
        }
      }
    }
  }
}

TEST(Schedule, AFlushPointHoldsForwardsBack) {
  const PipelineShape shape = {.order = PipelineSchedule::kAsync, .stages = 2, .update_every = 2};
  const Schedule first(shape, {0});
  const Counts before = {.forwards = 4, .backwards = 3, .updates = 1};
  EXPECT_TRUE(first.wants_forward(before, {3}));
  EXPECT_FALSE(first.wants_forward(before, {2}));
  EXPECT_TRUE(first.wants_backward(before, {2}));
}

TEST(Schedule, AStageOfAnotherPipelineIsOurBug) {
  EXPECT_DEATH(Schedule({.order = PipelineSchedule::kAsync, .stages = 2}, {2}),
               "a stage of this pipeline");
}

}  // namespace
}  // namespace leeway
