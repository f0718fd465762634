#include "worker/round_owner.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

using ChunkId = RoundOwner::ChunkId;

LanePlan plan_of(int64_t replicas, bool on_arrival) {
  LanePlan plan = {.replicas = replicas};
  if (on_arrival) plan.deadline = Nanos{1000};
  return plan;
}

Message message(MessageKind kind, int64_t replica, const ChunkId& id) {
  return {.kind = kind,
          .from = {.replica = {replica}, .stage = {0}},
          .to = {},
          .index = id.round,
          .payload = at::scalar_tensor(replica),
          .chunk = id.chunk};
}
Message part(int64_t replica, const ChunkId& id) {
  Message part = message(MessageKind::kContribution, replica, id);
  part.replicas = ReplicaSet::of({replica});
  return part;
}
Message weightless(int64_t replica, const ChunkId& id) {
  Message part = message(MessageKind::kContribution, replica, id);
  part.payload = at::Tensor();
  return part;
}

ReplicaSet set_of(std::initializer_list<int64_t> replicas) {
  ReplicaSet set;
  for (const int64_t replica : replicas) set.add({replica});
  return set;
}

void close(RoundOwner& owner, const ChunkId& id) { owner.reduced(id, owner.contributors(id)); }

TEST(RoundOwner, ClosesWhenAllReplicasHaveSent) {
  for (const bool on_arrival : {false, true}) {
    RoundOwner owner(plan_of(3, on_arrival), {.replica = {0}, .stage = {0}});
    for (const int64_t replica : {2, 0}) {
      owner.deliver(part(replica, {4, 1}));
      EXPECT_FALSE(owner.to_reduce().has_value());
    }
    owner.deliver(part(1, {4, 1}));
    ASSERT_EQ(owner.to_reduce(), (ChunkId{4, 1}));
    const ReplicaSet all = set_of({0, 1, 2});
    EXPECT_EQ(owner.contributors({4, 1}), all);
    const auto parts = owner.contributions({4, 1}, all);
    ASSERT_EQ(parts.size(), 3U);
    for (size_t r = 0; r < 3; ++r) EXPECT_EQ(parts[r].item<int64_t>(), static_cast<int64_t>(r));
    close(owner, {4, 1});
    EXPECT_FALSE(owner.to_reduce().has_value());
    EXPECT_EQ(owner.open_count(), 0U);
    EXPECT_EQ(owner.missing(), 0);
    EXPECT_EQ(owner.late(), 0);
  }
}

TEST(RoundOwner, TheOldestGoesFirst) {
  RoundOwner owner(plan_of(1, false), {.replica = {0}, .stage = {0}});
  for (const ChunkId& id : {ChunkId{3, 0}, ChunkId{2, 1}, ChunkId{2, 0}})
    owner.deliver(part(0, id));
  EXPECT_EQ(owner.to_reduce(), (ChunkId{2, 0}));
}

TEST(RoundOwner, ClosesAtItsDeadlineWithThePartsThatArrived) {
  RoundOwner owner(plan_of(3, true), {.replica = {0}, .stage = {0}});
  EXPECT_FALSE(owner.to_await().has_value());
  owner.deliver(part(1, {0, 0}));
  ASSERT_EQ(owner.to_await(), (ChunkId{0, 0}));
  owner.awaits({0, 0});
  EXPECT_FALSE(owner.to_await().has_value()) << "one deadline is enough";
  EXPECT_FALSE(owner.to_reduce().has_value());
  owner.deliver(message(MessageKind::kDeadline, 0, {0, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{0, 0}));
  EXPECT_EQ(owner.contributors({0, 0}), set_of({1}));
  close(owner, {0, 0});
  EXPECT_EQ(owner.missing(), 2);
  owner.deliver(part(0, {0, 0}));
  owner.deliver(weightless(2, {0, 0}));
  EXPECT_EQ(owner.late(), 1) << "a part without weight cannot be late";
  EXPECT_EQ(owner.open_count(), 0U) << "a closed chunk stays closed";
  owner.deliver(message(MessageKind::kDeadline, 0, {0, 0}));
  EXPECT_FALSE(owner.to_reduce().has_value());
}

// A dead replica costs one deadline, and one that returns is waited for again.
TEST(RoundOwner, DoesNotWaitAgainForAReplicaThatADeadlinePassedWithout) {
  RoundOwner owner(plan_of(3, true), {.replica = {0}, .stage = {0}});
  for (const ChunkId& id : {ChunkId{0, 0}, ChunkId{1, 0}}) {
    owner.deliver(part(0, id));
    owner.deliver(part(1, id));
  }
  EXPECT_FALSE(owner.to_reduce().has_value());
  owner.deliver(message(MessageKind::kDeadline, 0, {0, 0}));
  EXPECT_EQ(owner.absent(), set_of({2}));
  close(owner, {0, 0});
  ASSERT_EQ(owner.to_reduce(), (ChunkId{1, 0})) << "open when the deadline passed";
  close(owner, {1, 0});
  owner.deliver(part(0, {2, 0}));
  EXPECT_FALSE(owner.to_reduce().has_value()) << "replica 1 is not absent";
  owner.deliver(part(1, {2, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{2, 0}));
  close(owner, {2, 0});

  owner.deliver(part(2, {2, 0}));
  EXPECT_EQ(owner.late(), 1);
  EXPECT_EQ(owner.absent(), ReplicaSet());
  owner.deliver(part(0, {3, 0}));
  owner.deliver(part(1, {3, 0}));
  EXPECT_FALSE(owner.to_reduce().has_value());
  owner.deliver(part(2, {3, 0}));
  EXPECT_EQ(owner.contributors({3, 0}), set_of({0, 1, 2}));
}

TEST(RoundOwner, AReplicaThatIsBehindIsNotAbsent) {
  RoundOwner owner(plan_of(2, true), {.replica = {0}, .stage = {0}});
  owner.deliver(part(0, {5, 0}));
  owner.deliver(part(1, {4, 0}));
  owner.deliver(message(MessageKind::kDeadline, 0, {5, 0}));
  EXPECT_EQ(owner.absent(), ReplicaSet()) << "it sent something while the chunk was open";
}

TEST(RoundOwner, AnswersWithTheLongestStretchThatAContributorWants) {
  RoundOwner owner(plan_of(4, true), {.replica = {0}, .stage = {0}});
  for (const int64_t replica : {0, 1, 2}) {
    Message wants = part(replica, {0, 0});
    wants.stretch = replica == 1 ? 3 : 1;
    owner.deliver(wants);
  }
  Message follower = weightless(3, {0, 0});
  follower.stretch = 9;
  owner.deliver(follower);
  EXPECT_EQ(owner.stretch({0, 0}), 3);
  close(owner, {0, 0});
}

TEST(RoundOwner, WithoutADeadlineItWaitsForAllReplicas) {
  RoundOwner owner(plan_of(2, false), {.replica = {0}, .stage = {0}});
  owner.deliver(part(0, {0, 0}));
  owner.deliver(part(0, {1, 0}));
  owner.deliver(part(1, {1, 0}));
  EXPECT_FALSE(owner.to_await().has_value());
  EXPECT_EQ(owner.to_reduce(), (ChunkId{1, 0})) << "round 0 still lacks one";
}

// Links are in order: a replica that has sent a part of a later round sends none of this one.
// Chunk 2 goes from replica 2 to 3, and back.
TEST(RoundOwner, OneThatOwnsAChunkAgainTakesItsParts) {
  for (const bool on_arrival : {false, true}) {
    RoundOwner owner(plan_of(4, on_arrival), {.replica = {2}, .stage = {0}});
    owner.deliver(part(3, {0, 2}));
    owner.adopt(Membership(1, set_of({1, 2, 3})), /*copied=*/-1);
    EXPECT_FALSE(owner.to_await().has_value()) << "it is another's";
    owner.adopt(Membership(2, set_of({2, 3})), /*copied=*/-1);
    owner.deliver(part(2, {0, 2}));
    owner.deliver(weightless(3, {0, 2}));
    ASSERT_EQ(owner.to_reduce(), (ChunkId{0, 2}));
    EXPECT_EQ(owner.contributors({0, 2}), set_of({2}));
  }
}

TEST(RoundOwner, DoesNotWaitForAReplicaThatHasMovedOn) {
  RoundOwner owner(plan_of(3, true), {.replica = {0}, .stage = {0}});
  owner.deliver(part(0, {5, 0}));
  owner.deliver(part(1, {5, 0}));
  owner.deliver(part(2, {6, 2}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{5, 0}));
  EXPECT_EQ(owner.contributors({5, 0}), set_of({0, 1}));
}

TEST(RoundOwner, AFollowerIsNotWaitedForAndNotCounted) {
  RoundOwner owner(plan_of(2, true), {.replica = {0}, .stage = {0}});
  owner.deliver(weightless(1, {0, 0}));
  owner.deliver(part(0, {0, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{0, 0}));
  EXPECT_EQ(owner.contributors({0, 0}), set_of({0}));
  close(owner, {0, 0});
  EXPECT_EQ(owner.missing(), 0);
}

TEST(RoundOwner, APartThatArrivesWhileTheMeanIsMadeIsLate) {
  RoundOwner owner(plan_of(2, true), {.replica = {0}, .stage = {0}});
  owner.deliver(part(0, {0, 0}));
  owner.deliver(message(MessageKind::kDeadline, 0, {0, 0}));
  const ReplicaSet mean_of = owner.contributors({0, 0});
  owner.deliver(part(1, {0, 0}));  // between run() and finish()
  owner.reduced({0, 0}, mean_of);
  EXPECT_EQ(owner.missing(), 1);
  EXPECT_EQ(owner.late(), 1);
}

TEST(RoundOwner, TheSamePartTwiceCountsOnce) {
  RoundOwner owner(plan_of(2, true), {.replica = {0}, .stage = {0}});
  owner.deliver(part(0, {0, 0}));
  owner.deliver(part(0, {0, 0}));
  EXPECT_FALSE(owner.to_reduce().has_value());
  EXPECT_EQ(owner.contributions({0, 0}, set_of({0})).size(), 1U);
}

// Evaluations are numbered by updates, hundreds apart. Update 100 must still be evaluated although
// the other replica's copy was lost, and update 200 waits for the evaluator itself.
TEST(RoundOwner, AnEvaluationThatItsOwnerReachesLateStillHappens) {
  LanePlan plan = plan_of(2, true);
  plan.lane = Lane::kEvaluation;
  RoundOwner owner(plan, {.replica = {0}, .stage = {0}});
  owner.deliver(part(1, {200, 0}));
  EXPECT_FALSE(owner.to_await().has_value());
  EXPECT_FALSE(owner.to_reduce().has_value());
  owner.deliver(part(0, {100, 0}));
  EXPECT_EQ(owner.to_reduce(), (ChunkId{100, 0})) << "the other has moved on";
  close(owner, {100, 0});
  owner.deliver(part(0, {200, 0}));
  EXPECT_EQ(owner.to_await(), (ChunkId{200, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{200, 0}));
  EXPECT_EQ(owner.contributors({200, 0}), set_of({0, 1}));
  close(owner, {200, 0});
  owner.deliver(part(1, {150, 0}));
  EXPECT_EQ(owner.open_count(), 0U) << "the owner has moved past it";
}

// An evaluator that is far behind does not collect the weights of all who are ahead.
TEST(RoundOwner, HoldsTheCopiesOfTwoEvaluations) {
  LanePlan plan = plan_of(2, true);
  plan.lane = Lane::kEvaluation;
  RoundOwner owner(plan, {.replica = {0}, .stage = {0}});
  for (const int64_t update : {100, 200}) {
    EXPECT_FALSE(owner.full({update, 0}));
    owner.deliver(part(1, {update, 0}));
  }
  EXPECT_TRUE(owner.full({300, 0}));
  EXPECT_FALSE(owner.full({200, 0}));
  owner.deliver(part(0, {100, 0}));
  close(owner, {100, 0});
  EXPECT_FALSE(owner.full({300, 0}));
}

TEST(RoundOwner, AnEvaluationOfOwnWeightsWaitsForNobody) {
  for (const bool on_arrival : {false, true}) {
    LanePlan plan = plan_of(3, on_arrival);
    plan.lane = Lane::kEvaluation;
    plan.interval = 200;
    RoundOwner owner(plan, {.replica = {0}, .stage = {0}});
    owner.deliver(part(0, {100, 0}));
    ASSERT_EQ(owner.to_reduce(), (ChunkId{100, 0}));
    EXPECT_EQ(owner.contributors({100, 0}), set_of({0}));
    close(owner, {100, 0});
    EXPECT_EQ(owner.missing(), 0) << "nobody was asked";
    owner.deliver(part(0, {200, 0}));
    EXPECT_FALSE(owner.to_reduce().has_value()) << "of the mean";
    for (const int64_t replica : {1, 2}) owner.deliver(part(replica, {200, 0}));
    EXPECT_EQ(owner.to_reduce(), (ChunkId{200, 0}));
  }
}

TEST(LanePlan, SomeEvaluationsAndTheLastAreOfTheMean) {
  const LanePlan plan = {.lane = Lane::kEvaluation, .replicas = 2, .interval = 3, .final_round = 8};
  std::vector<int64_t> means;
  for (int64_t update = 1; update <= 8; ++update) {
    if (plan.evaluates_mean(update)) means.push_back(update);
  }
  EXPECT_EQ(means, (std::vector<int64_t>{3, 6, 8}));
}

// Stage 0 has averaged replicas 0 and 2. Stage 1 also has a copy of replica 1, which it leaves out.
TEST(RoundOwner, LaterStagesEvaluateWhomStage0Does) {
  LanePlan plan = plan_of(3, true);
  plan.lane = Lane::kEvaluation;
  RoundOwner owner(plan, {.replica = {0}, .stage = {1}});
  owner.deliver(part(0, {100, 0}));
  owner.deliver(part(1, {100, 0}));
  EXPECT_FALSE(owner.to_await().has_value()) << "nothing is missing that stage 0 has asked for";
  owner.expect(100, set_of({0, 2}));
  EXPECT_FALSE(owner.to_reduce().has_value());
  EXPECT_EQ(owner.to_await(), (ChunkId{100, 0}));
  EXPECT_FALSE(owner.lacks_expected(100));
  owner.deliver(part(2, {100, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{100, 0}));
  EXPECT_EQ(owner.contributors({100, 0}), set_of({0, 2}));
  close(owner, {100, 0});
  owner.expect(100, set_of({0, 2}));  // the next batch says it again
  EXPECT_FALSE(owner.to_reduce().has_value());
}

TEST(RoundOwner, KnowsThatACopyForAnEvaluationWillNotCome) {
  LanePlan plan = plan_of(3, true);
  plan.lane = Lane::kEvaluation;
  const auto waiting = [&] {
    RoundOwner owner(plan, {.replica = {0}, .stage = {1}});
    owner.deliver(part(0, {100, 0}));
    owner.expect(100, set_of({0, 2}));
    EXPECT_FALSE(owner.lacks_expected(100));
    return owner;
  };
  RoundOwner overtaken = waiting();
  overtaken.deliver(part(2, {200, 0}));
  EXPECT_TRUE(overtaken.lacks_expected(100));
  RoundOwner left = waiting();
  left.adopt(Membership(1, set_of({0, 1})), -1);
  EXPECT_TRUE(left.lacks_expected(100));
  RoundOwner late = waiting();
  late.deliver(message(MessageKind::kDeadline, 0, {100, 0}));
  EXPECT_TRUE(late.lacks_expected(100));
  late.give_up(100);
  EXPECT_FALSE(late.lacks_expected(100));
  EXPECT_EQ(late.open_count(), 0U);
  RoundOwner elsewhere = waiting();
  elsewhere.deliver(weightless(2, {100, 0}));
  EXPECT_TRUE(elsewhere.lacks_expected(100));
}

// The evaluator was lost, and replica 2 had already sent it its copies of updates 9 and 18. It
// tells the new evaluator, which is behind, only of the newest.
TEST(RoundOwner, ANewEvaluatorDoesNotWaitForCopiesThatWentElsewhere) {
  LanePlan plan = plan_of(3, /*on_arrival=*/false);
  plan.lane = Lane::kEvaluation;
  RoundOwner owner(plan, {.replica = {1}, .stage = {0}});
  owner.adopt(Membership(1, set_of({1, 2})), /*copied=*/-1);
  owner.deliver(weightless(2, {18, 0}));
  EXPECT_FALSE(owner.to_reduce().has_value());
  owner.deliver(part(1, {9, 0}));
  ASSERT_EQ(owner.to_reduce(), (ChunkId{9, 0}));
  EXPECT_EQ(owner.contributors({9, 0}), set_of({1}));
  close(owner, {9, 0});
  owner.deliver(part(1, {18, 0}));
  EXPECT_EQ(owner.to_reduce(), (ChunkId{18, 0}));
}

}  // namespace
}  // namespace leeway
