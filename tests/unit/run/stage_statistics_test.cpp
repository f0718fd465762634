#include "run/stage_statistics.h"

#include <gtest/gtest.h>

#include "../../support/mesh_testing.h"

namespace leeway {
namespace {

StageStatistics statistics_of(const RunPlan& plan, int64_t stage) {
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  return stage_statistics(plan, recorder.tallies, {stage});
}

RunPlan plan_of(PipelineSchedule order, int64_t update_every, int64_t updates) {
  return {.shape = {.order = order, .stages = 4, .update_every = update_every},
          .first_update = 0,
          .last_update = updates,
          .run_updates = updates,
          .saves = false};
}

TEST(StageStatistics, MeasuredDelaysMatchTheFormula) {
  for (const int64_t every : {1, 2, 3, 4, 7}) {
    for (int64_t s = 0; s < 4; ++s) {
      const StageStatistics found = statistics_of(plan_of(PipelineSchedule::kAsync, every, 20), s);
      EXPECT_DOUBLE_EQ(found.delay_expected,
                       static_cast<double>(3 - s) / static_cast<double>(every));
      EXPECT_DOUBLE_EQ(found.delay_mean.value(), found.delay_expected) << every << ' ' << s;
      EXPECT_EQ(found.delay_max, (3 - s + every - 1) / every);
    }
  }
}

TEST(StageStatistics, FillingAfterAFlushPointIsLeftOut) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 20);
  plan.flushes = {{5, 6, 13}};
  for (int64_t s = 0; s < 4; ++s) {
    const StageStatistics found = statistics_of(plan, s);
    EXPECT_DOUBLE_EQ(found.delay_mean.value(), found.delay_expected) << s;
  }
}

TEST(StageStatistics, SynchronousSchedulesAreNeverLate) {
  const StageStatistics found = statistics_of(plan_of(PipelineSchedule::k1f1b, 4, 5), 0);
  EXPECT_EQ(found.delay_expected, 0);
  EXPECT_EQ(found.delay_mean.value(), 0);
  EXPECT_EQ(found.delay_max, 0);
}

TEST(StageStatistics, ARunThatNeverFilledHasNoMean) {
  EXPECT_FALSE(statistics_of(plan_of(PipelineSchedule::kAsync, 1, 2), 0).delay_mean.has_value());
}

TEST(StageStatistics, BusyIsTheShareUntilTheLastUpdateAveragedOverReplicas) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 1, 1);
  plan.replicas = 2;
  Tallies tallies;
  tallies[{{0}, {0}}] = {.begin = {100}, .end = {200}, .busy = {40}};
  tallies[{{1}, {0}}] = {.begin = {100}, .end = {200}, .busy = {60}};
  EXPECT_DOUBLE_EQ(stage_statistics(plan, tallies, {0}).busy, 0.5);
}

TEST(StageStatistics, PredictionErrorsAreAveragedIfThereAreAny) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 1, 1);
  Tallies tallies;
  WorkTally& tally = tallies[{}];
  EXPECT_FALSE(stage_statistics(plan, tallies, {0}).prediction_error.has_value());
  tally.prediction_error_sum = 1.2;
  tally.predictions = 2;
  EXPECT_DOUBLE_EQ(stage_statistics(plan, tallies, {0}).prediction_error.value(), 0.6);
}

}  // namespace
}  // namespace leeway
