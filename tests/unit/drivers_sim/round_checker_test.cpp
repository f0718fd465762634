// Breaks each rule about rounds once. The work is made up.
#include "drivers/sim/round_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drivers/sim/common_checker.h"
#include "round_plans.h"

namespace leeway::sim {
namespace {

using testing::HasSubstr;

// Two replicas of one stage: chunk 0 of round 0 belongs to replica 0, chunk 1 to replica 1.
class RoundRules : public testing::Test {
 protected:
  static RunPlan plan(std::optional<int64_t> lag = {}, int64_t update_every = 1) {
    RunPlan plan = plan_of({.stages = 1, .update_every = update_every}, 100);
    plan.replicas = 2;
    add_lanes({.method = Method::kSparse, .replicas = 2, .lag_backwards = lag}, plan);
    return plan;
  }
  static Work work(WorkKind kind, int64_t round, int64_t chunk = 0) {
    return {.kind = kind, .index = round, .lane = Lane::kMain, .chunk = chunk};
  }
  static Work with(Work work, std::initializer_list<int64_t> replicas) {
    for (const int64_t replica : replicas) work.replicas.add({replica});
    return work;
  }
  static Message message(MessageKind kind, int64_t from, int64_t to, int64_t chunk,
                         std::initializer_list<int64_t> replicas) {
    Message message = {.kind = kind, .from = {{from}, {0}}, .to = {{to}, {0}}};
    message.chunk = chunk;
    for (const int64_t replica : replicas) message.replicas.add({replica});
    return message;
  }
  std::string began(size_t worker, const Work& work, int64_t updates = 1, Nanos now = {}) {
    return rules_.began(
        worker, work, {.updates = updates, .backwards = updates, .update_due = false, .now = now});
  }
  // Both send round 0, and replica 0 closes its chunk.
  void hold_round() {
    EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 0), {0})), "");
    EXPECT_EQ(began(1, with(work(WorkKind::kContribute, 0), {1})), "");
    EXPECT_EQ(rules_.received(message(MessageKind::kContribution, 1, 0, 0, {1}), {}), "");
    EXPECT_EQ(began(0, work(WorkKind::kAwait, 0)), "");
    EXPECT_EQ(began(0, with(work(WorkKind::kReduce, 0), {0, 1})), "");
  }

  // An owner gives its chunk a deadline.
  void await(int64_t owner, int64_t round, int64_t chunk) {
    EXPECT_EQ(began(static_cast<size_t>(owner), work(WorkKind::kAwait, round, chunk)), "");
    Message deadline = message(MessageKind::kDeadline, owner, owner, chunk, {});
    deadline.index = round;
    EXPECT_EQ(rules_.asked_for(deadline, *plan().lanes[0].deadline, {}), "");
  }

  static constexpr Mesh kMesh = {.stages = 1, .replicas = 2};
  RoundChecker rules_{kMesh, plan()};
};

TEST_F(RoundRules, AGoodRoundPasses) {
  hold_round();
  EXPECT_EQ(rules_.received(message(MessageKind::kAnswer, 0, 1, 0, {0, 1}), {}), "");
  EXPECT_EQ(began(0, with(work(WorkKind::kMerge, 0), {0})), "");
  await(1, 0, 1);
  EXPECT_EQ(began(1, with(work(WorkKind::kMerge, 0), {1})), "");
}

TEST_F(RoundRules, AChunkIsMergedOnceAndOnlyAfterItsAnswer) {
  hold_round();
  EXPECT_THAT(began(0, with(work(WorkKind::kMerge, 0, 1), {0})), HasSubstr("before its answer"));
  EXPECT_EQ(began(0, with(work(WorkKind::kMerge, 0), {0})), "");
  EXPECT_THAT(began(0, with(work(WorkKind::kMerge, 0), {0})), HasSubstr("merged once"));
}

TEST_F(RoundRules, AChunkHasOneAnswerFromItsOwnerWithOneSetOfContributors) {
  hold_round();
  EXPECT_THAT(began(0, with(work(WorkKind::kReduce, 0), {0})), HasSubstr("one answer"));
  EXPECT_THAT(rules_.received(message(MessageKind::kAnswer, 0, 1, 0, {0}), {}),
              HasSubstr("the contributors are not those of the mean"));
  EXPECT_THAT(rules_.received(message(MessageKind::kAnswer, 1, 0, 0, {0, 1}), {}),
              HasSubstr("an answer from a replica that is not its owner"));
  EXPECT_THAT(rules_.received(message(MessageKind::kContribution, 0, 1, 0, {0}), {}),
              HasSubstr("a part sent to a replica that is not its owner"));
  EXPECT_THAT(rules_.received(message(MessageKind::kContribution, 1, 0, 0, {0}), {}),
              HasSubstr("another's name"));
}

TEST_F(RoundRules, AnOwnerAveragesOnlyPartsItHas) {
  EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 0), {0})), "");
  EXPECT_THAT(began(0, with(work(WorkKind::kReduce, 0), {0, 1})), HasSubstr("has not arrived"));
  EXPECT_THAT(began(1, with(work(WorkKind::kReduce, 0), {0})), HasSubstr("does not own"));
  EXPECT_THAT(began(0, work(WorkKind::kRepeat, 0)), HasSubstr("never given"));
}

TEST_F(RoundRules, AReplicaContributesForItselfInAscendingRounds) {
  EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 3), {0})), "");
  await(0, 3, 1);
  EXPECT_THAT(began(0, with(work(WorkKind::kContribute, 3), {0})), HasSubstr("ascending"));
  EXPECT_THAT(began(1, with(work(WorkKind::kContribute, 3), {0})), HasSubstr("another's name"));
}

TEST_F(RoundRules, WeightsChangeOnlyAtTheBoundary) {
  hold_round();
  EXPECT_EQ(began(0, {.kind = WorkKind::kForward}), "");
  EXPECT_THAT(began(0, with(work(WorkKind::kMerge, 0), {0})), HasSubstr("away from the boundary"));
  EXPECT_THAT(began(0, with(work(WorkKind::kContribute, 1), {0})), HasSubstr("away from"));
  EXPECT_EQ(began(0, {.kind = WorkKind::kUpdate}), "");
  EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 1), {0}), 2), "");
}

TEST_F(RoundRules, AnOwnerLooksAfterItsChunksFirst) {
  const Nanos deadline = *plan().lanes[0].deadline;
  const Work forward = {.kind = WorkKind::kForward};
  EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 0), {0})), "");
  EXPECT_THAT(began(0, forward), HasSubstr("keeps round 0 chunk 0 of lane main open"));
  await(0, 0, 0);
  EXPECT_EQ(began(0, forward, 1, deadline), "");
  EXPECT_THAT(began(0, forward, 1, deadline + Nanos{1}), HasSubstr("keeps round 0"));
}

TEST_F(RoundRules, ADeadlineIsThePlannedOneOrALongerOneThatFollowsTime) {
  const Message wish = message(MessageKind::kDeadline, 0, 0, 0, {});
  const Nanos planned = *plan().lanes[0].deadline;
  for (const Nanos after : {planned + Nanos{1}, planned - Nanos{1}}) {
    EXPECT_THAT(rules_.asked_for(wish, after, {}), HasSubstr("not the planned one"));
  }
  EXPECT_EQ(rules_.asked_for(wish, planned, {}), "");
  RunPlan following = plan();
  following.lanes[0].deadline_follows = true;
  rules_ = RoundChecker(kMesh, following);
  EXPECT_THAT(rules_.asked_for(wish, planned - Nanos{1}, {}), HasSubstr("not the planned one"));
  EXPECT_EQ(rules_.asked_for(wish, planned + Nanos{1}, {}), "");
  rules_ = RoundChecker(kMesh, plan(/*lag=*/1));
  EXPECT_THAT(rules_.asked_for(wish, planned, {}), HasSubstr("a lane that has none"));
}

TEST_F(RoundRules, TheLagIsThePlannedOne) {
  for (const int64_t updates : {2, 3, 4}) {
    rules_ = RoundChecker(kMesh, plan(/*lag=*/2));
    hold_round();
    Work merge = with(work(WorkKind::kMerge, 0), {0});
    EXPECT_THAT(began(0, with(merge, {}), updates), HasSubstr("the lag is"));
    rules_ = RoundChecker(kMesh, plan(/*lag=*/2));
    hold_round();
    merge.delay = updates - 1;
    const std::string wrong = began(0, merge, updates);
    EXPECT_EQ(wrong, updates <= 3 ? "" : "the lag is 3 backwards, not 2 as planned");
    const std::string after = began(0, {.kind = WorkKind::kForward}, updates);
    EXPECT_EQ(after.empty(), updates != 2) << "too early, and no flush point: " << after;
  }
}

// Four microbatches an update. Both send at the end of update 1, and merge in the middle of the
// next.
TEST_F(RoundRules, MergesInsideAnUpdateComeAfterABackwardAndSayAfterWhich) {
  for (const int64_t lag : {2, 4}) {
    rules_ = RoundChecker(kMesh, plan(lag, /*update_every=*/4));
    const auto began_at = [&](const Work& work, int64_t backwards) {
      return rules_.began(0, work, {.updates = 1, .backwards = backwards});
    };
    EXPECT_EQ(began_at(with(work(WorkKind::kContribute, 0), {0}), 4), "");
    EXPECT_EQ(
        rules_.began(1, with(work(WorkKind::kContribute, 0), {1}), {.updates = 1, .backwards = 4}),
        "");
    EXPECT_EQ(rules_.received(message(MessageKind::kContribution, 1, 0, 0, {1}), {}), "");
    EXPECT_EQ(began_at(work(WorkKind::kAwait, 0), 4), "");
    EXPECT_EQ(began_at(with(work(WorkKind::kReduce, 0), {0, 1}), 4), "");
    Work merge = with(work(WorkKind::kMerge, 0), {0});
    EXPECT_EQ(began_at({.kind = WorkKind::kForward}, 4), "");
    EXPECT_THAT(began_at(merge, 4), HasSubstr("away from the boundary"));
    EXPECT_EQ(began_at({.kind = WorkKind::kBackward}, 4), "");
    EXPECT_EQ(began_at({.kind = WorkKind::kBackward}, 5), "");
    EXPECT_THAT(began_at(merge, 6), HasSubstr("the position is 2"));
    merge.position = 2;
    merge.positions = 4;
    EXPECT_EQ(began_at(merge, 6), lag == 2 ? "" : "inside an update, where its lag does not end");
  }
}

// A checkpoint is at the end of an update: it excuses no merge inside the next one.
TEST_F(RoundRules, OnlyTheEndOfAnUpdateIsAFlushPoint) {
  RunPlan saves = plan(/*lag=*/6, /*update_every=*/4);
  saves.checkpoint_every = 1;
  rules_ = RoundChecker(kMesh, saves);
  const auto began_at = [&](const Work& work, int64_t backwards) {
    return rules_.began(0, work, {.updates = 1, .backwards = backwards});
  };
  EXPECT_EQ(began_at(with(work(WorkKind::kContribute, 0), {0}), 4), "");
  EXPECT_EQ(began_at(work(WorkKind::kAwait, 0), 4), "");
  EXPECT_EQ(began_at(with(work(WorkKind::kReduce, 0), {0}), 4), "");
  EXPECT_EQ(began_at({.kind = WorkKind::kBackward}, 4), "");
  EXPECT_EQ(began_at({.kind = WorkKind::kBackward}, 5), "");
  Work merge = with(work(WorkKind::kMerge, 0), {0});
  merge.position = 2;
  merge.positions = 4;
  EXPECT_EQ(began_at(merge, 6), "");
  EXPECT_THAT(began_at({.kind = WorkKind::kForward}, 6), HasSubstr("before its planned lag"));
}

TEST_F(RoundRules, TheLagOfACommonModelIsThePlannedOneToo) {
  RunPlan common = plan(/*lag=*/2);
  common.lanes[0].common = true;
  const auto merged_after = [&](int64_t lag, int64_t said, bool waits = true) {
    rules_ = RoundChecker(kMesh, common);
    Work merge = with(work(WorkKind::kMerge, 7), {0});
    merge.delay = said;
    return rules_.merged_after(0, merge, {.updates = 9, .backwards = 9}, lag, waits);
  };
  EXPECT_EQ(merged_after(2, 2), "");
  EXPECT_THAT(merged_after(2, 1), HasSubstr("the lag is 2 backwards"));
  EXPECT_THAT(merged_after(3, 3), HasSubstr("not 2 as planned"));
  EXPECT_EQ(merged_after(3, 3, /*waits=*/false), "");
  EXPECT_EQ(merged_after(1, 1), "");
  EXPECT_THAT(began(0, {.kind = WorkKind::kForward}, 9), HasSubstr("before its planned lag"));
}

TEST(CommonRules, TheLagIsThatOfTheNewestOwnPart) {
  const WorkerId worker = {.replica = {1}, .stage = {0}};
  CommonChecker rules({.stages = 1, .replicas = 2});
  rules.contributed(worker, 1, /*backwards=*/4);
  rules.contributed(worker, 2, 8);
  rules.contributed(worker, 2, 12);  // again
  Message answer = {.kind = MessageKind::kAnswer, .from = {}, .to = {}};
  answer.parts = {{{0}, 9}, {{1}, 1}, {{1}, 2}};
  EXPECT_EQ(rules.lag(worker, answer, 14), 6);
  answer.parts = {{{0}, 9}};
  EXPECT_EQ(rules.lag(worker, answer, 14), std::nullopt);
}

TEST_F(RoundRules, OldRoundsAreGivenUp) {
  hold_round();
  EXPECT_EQ(began(0, with(work(WorkKind::kContribute, 64), {0})), "");
  Work merge = with(work(WorkKind::kMerge, 0), {0});
  // It attends to its own chunk of round 64 first.
  await(0, 64, 0);
  EXPECT_THAT(began(0, merge), HasSubstr("should have been given up"));
}

// The checker does not blame a worker that is gone; messages to it are lost.
TEST(SimulationFaults, TheRunEndsWithoutAWorkerThatIsGone) {
  RunPlan plan = plan_of({.stages = 2}, 30);
  plan.replicas = 2;
  add_lanes({.method = Method::kSparse, .replicas = 2}, plan);
  const StageCosts costs = {.forward = kMillisecond, .backward = kMillisecond};
  SimulationOptions options = {.costs = equal_costs(2, costs)};
  options.departures = {{.worker = {{1}, {1}}, .at = 10 * kMillisecond}};
  Finished run(plan, options, /*replicas=*/2);
  EXPECT_TRUE(run.workers[0]->done());
  EXPECT_TRUE(run.workers[1]->done());
  EXPECT_LT(run.workers[2]->counts().updates, 30) << "the rest of its replica cannot go on";
  for (const WorkRecord& record : run.recorder.of({{1}, {1}})) {
    EXPECT_LT(record.times.end, 10 * kMillisecond);
  }
}

TEST(SimulationFaults, ABrokenLinkLosesMessages) {
  RunPlan plan = plan_of({.stages = 1}, 30);
  plan.replicas = 2;
  add_lanes({.method = Method::kSparse, .replicas = 2}, plan);
  const StageCosts costs = {.forward = kMillisecond, .backward = kMillisecond};
  SimulationOptions options = {.costs = equal_costs(1, costs)};
  options.outages = cut_off({.stages = 1, .replicas = 2}, {{1}, {0}}, {{0}, 1000 * kMillisecond});
  Finished run(plan, options, /*replicas=*/2);
  for (const WorkRecord& record : run.recorder.records()) {
    if (record.work.kind != WorkKind::kReduce) continue;
    EXPECT_EQ(record.work.replicas, ReplicaSet::of(record.worker.replica)) << "nothing arrived";
  }
}

}  // namespace
}  // namespace leeway::sim
