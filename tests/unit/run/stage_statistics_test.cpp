#include "run/stage_statistics.h"

#include <gtest/gtest.h>

#include "../../support/mesh_testing.h"

namespace leeway {
namespace {

StageStatistics statistics_of(const RunPlan& plan, int64_t stage) {
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  StatisticsKeeper keeper(plan);
  for (const WorkRecord& record : recorder.records) keeper.worked(record);
  return keeper.of({stage});
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

TEST(StageStatistics, BusyIsTheShareUntilTheLastUpdate) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 1, 1);
  StatisticsKeeper keeper(plan);
  const auto work = [&](WorkKind kind, int64_t begin, int64_t end) {
    keeper.worked({.worker = {}, .work = {.kind = kind}, .times = {{begin}, {end}}});
  };
  work(WorkKind::kForward, 100, 110);
  work(WorkKind::kBackward, 150, 170);
  work(WorkKind::kUpdate, 190, 200);
  work(WorkKind::kEvaluate, 200, 900);
  EXPECT_DOUBLE_EQ(keeper.of({0}).busy, 0.4);
}

TEST(StageStatistics, PredictionErrorsAreAveragedIfThereAreAny) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 1, 1);
  StatisticsKeeper keeper(plan);
  EXPECT_FALSE(keeper.of({0}).prediction_error.has_value());
  keeper.predicted({.worker = {}, .update = 1, .delay = 1, .error = 0.5});
  keeper.predicted({.worker = {}, .update = 2, .delay = 1, .error = 0.7});
  EXPECT_DOUBLE_EQ(keeper.of({0}).prediction_error.value(), 0.6);
}

}  // namespace
}  // namespace leeway
