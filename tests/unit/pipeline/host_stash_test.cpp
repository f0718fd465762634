// A stash in host memory beside one on the device: the same bits, and the copies that are promised.
#include <algorithm>

#include "late_stage.h"
#include "pipeline/memory_plan.h"

namespace leeway {
namespace {

StageOptions options_of(const LateCase& with, StashPlace place) {
  StageOptions all = with.options();
  all.stash_on = place;
  return all;
}

class HostStash : public testing::TestWithParam<LateCase> {};
INSTANTIATE_TEST_SUITE_P(LookAheads, HostStash, testing::ValuesIn(kLateCases));

TEST_P(HostStash, GivesTheSameBitsWithTwoVersionsOnTheDevice) {
  const LateCase& with = GetParam();
  for (const int64_t depth : {1, 2, 5, 8}) {
    for (const int64_t every : {1, 2, 3, 6, 9}) {
      if (with.guesses > 0 && every <= depth) continue;  // no gradient to guess from
      SCOPED_TRACE(testing::Message() << "W " << depth << ", K " << every);
      const Schedule schedule = schedule_of(depth, every);
      Late here(schedule, options_of(with, StashPlace::kHost), with.guesses);
      Late there(schedule, options_of(with, StashPlace::kDevice), with.guesses);
      const int64_t updates = 5 + 2 * schedule.delay_max();
      for (Late* late : {&here, &there}) late->run(updates);
      expect_same(here, there);

      const int64_t all = version_count_max(schedule, options_of(with, StashPlace::kHost),
                                            {.guesses = with.guesses});
      EXPECT_EQ(here.stage.versions_peak(), all);
      EXPECT_EQ(here.stage.version_count(), std::min<int64_t>(all, 2));
      EXPECT_EQ(here.stage.host_version_count(), std::max<int64_t>(all - 2, 0));
      EXPECT_EQ(there.stage.host_version_count(), 0);
    }
  }
}

TEST_P(HostStash, ARestartFreesWhatWaits) {
  const LateCase& with = GetParam();
  const Schedule schedule = schedule_of(/*depth=*/5, /*update_every=*/6);
  Late here(schedule, options_of(with, StashPlace::kHost), with.guesses);
  Late there(schedule, options_of(with, StashPlace::kDevice), with.guesses);
  for (Late* late : {&here, &there}) late->run(6);
  const int64_t waiting = here.stage.host_version_count();
  for (Late* late : {&here, &there}) {
    ASSERT_GT(late->stage.in_flight_count(), 0);
    late->restart();
    late->run(12);
  }
  expect_same(here, there);
  EXPECT_EQ(here.stage.version_count(), 2);
  EXPECT_EQ(here.stage.host_version_count(), waiting) << "the same buffers again";
}

TEST(HostStashAlone, MovesNothingIfEveryUpdateFlushes) {
  for (const PipelineSchedule order : {PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
    Late late(schedule_of(3, 4, order), options_of({}, StashPlace::kHost));
    late.run(4, /*flushes=*/true);
    EXPECT_EQ(late.stage.version_count(), 1);
    EXPECT_EQ(late.stage.host_version_count(), 0);
  }
}

TEST(HostStashAlone, LeavesTheCopiesOfAnEvaluationAlone) {
  Late late(schedule_of(4, 1), options_of({}, StashPlace::kHost));
  late.run(6);
  const at::Tensor weights = late.stage.weights().clone();
  const auto held = late.stage.hold_copy(weights);
  late.run(12);
  EXPECT_TRUE(at::equal(held->views.flat, weights));
  EXPECT_EQ(late.stage.version_count(), 3) << "and those of forwards and of the next backward";
}

// A merge may come when forwards have used the newest weights.
TEST(HostStashAlone, AWrittenCopyIsNotThatOfAForward) {
  Late here(schedule_of(4, 1), options_of({}, StashPlace::kHost));
  Late there(schedule_of(4, 1), options_of({}, StashPlace::kDevice));
  for (Late* late : {&here, &there}) {
    late->run(6);
    late->stage.forward_to_head({100}, {}, tokens(100), tokens(101));
    EXPECT_FALSE(late->stage.writable_copy().defined());
    late->stage.weights().mul_(0.5);
    late->run(8);
  }
  expect_same(here, there);
  EXPECT_EQ(here.stage.version_count(), 2);
}

TEST(HostStashDeath, BackwardsComeInOrder) {
  Late late(schedule_of(4, 1), options_of({}, StashPlace::kHost));
  late.run(6);  // microbatches 6 to 9 are in flight, each with a version of its own
  EXPECT_DEATH(late.stage.backward_from_loss({8}), "backwards come in the order of forwards");
}

}  // namespace
}  // namespace leeway
