#include "worker/round_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t kChunks = 2;  // one per replica

LanePlan on_arrival(int64_t cycle = 5) {
  LanePlan plan = {.replicas = kChunks, .cycle = cycle};
  plan.deadline = Nanos{1000};
  return plan;
}

Message answer(int64_t round, int64_t chunk) {
  Message message = {.kind = MessageKind::kAnswer, .from = {}, .to = {}, .index = round};
  message.chunk = chunk;
  return message;
}

void answer_all(RoundMember& member, int64_t round) {
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) member.deliver(answer(round, chunk));
}

// Everything that is due now, as "round.chunk".
std::vector<std::string> merge_all(RoundMember& member, int64_t updates) {
  std::vector<std::string> merged;
  while (const auto due = member.merge_due(updates, /*flush=*/false)) {
    if (!due->arrived) break;
    merged.push_back(std::to_string(due->round) + "." + std::to_string(due->chunk));
    member.merged(due->round, due->chunk, static_cast<double>(due->lag_backwards));
  }
  return merged;
}

TEST(RoundMember, ContributesEveryIntervalOnce) {
  LanePlan plan = on_arrival();
  plan.interval = 3;
  RoundMember member(plan, {0}, /*updates_done=*/3, /*next_round=*/1);
  EXPECT_FALSE(member.contributes_at(3)) << "the previous session has done that";
  EXPECT_FALSE(member.contributes_at(4));
  EXPECT_TRUE(member.contributes_at(6));
  EXPECT_EQ(member.next_round(), 1);
  member.contributed(1, 6, /*sent=*/true);
  EXPECT_FALSE(member.contributes_at(6));
  EXPECT_EQ(member.next_round(), 2);
}

TEST(RoundMember, OnArrivalMergesAnswersInOrder) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  member.contributed(0, 1, true);
  member.contributed(1, 2, true);
  EXPECT_FALSE(member.merge_due(2, false).has_value());
  answer_all(member, 1);
  member.deliver(answer(0, 1));
  const auto due = member.merge_due(5, false);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->round, 0);
  EXPECT_EQ(due->chunk, 1);
  EXPECT_EQ(due->lag_backwards, 4);
  EXPECT_TRUE(due->sent);
  EXPECT_THAT(merge_all(member, 5), ElementsAre("0.1", "1.0", "1.1"));
  EXPECT_THAT(member.in_flight(), ElementsAre(0)) << "its chunk 0 has not arrived";
  member.deliver(answer(0, 1));
  EXPECT_THAT(merge_all(member, 6), IsEmpty()) << "not twice";
}

TEST(RoundMember, AFixedLagIsWaitedFor) {
  LanePlan plan = {.replicas = kChunks};
  plan.lag_backwards = 2;
  RoundMember member(plan, {0}, 0, 0);
  member.contributed(0, 1, true);
  answer_all(member, 0);
  EXPECT_FALSE(member.merge_due(2, false).has_value()) << "it has arrived, but it is too early";
  EXPECT_THAT(merge_all(member, 3), ElementsAre("0.0", "0.1"));
  member.contributed(1, 3, true);
  const auto due = member.merge_due(5, false);
  ASSERT_TRUE(due.has_value());
  EXPECT_FALSE(due->arrived) << "nothing else may come before it";
  EXPECT_EQ(due->lag_backwards, 2);
  EXPECT_TRUE(member.merge_due(4, /*flush=*/true).has_value()) << "nothing in flight is saved";
}

// Four microbatches an update, and a lag of one and a half.
TEST(RoundMember, ALagMayEndInsideAnUpdate) {
  LanePlan plan = {.replicas = kChunks, .update_every = 4, .lag_backwards = 6};
  EXPECT_TRUE(plan.merges_at(0) && plan.merges_at(2));
  EXPECT_FALSE(plan.merges_at(1) || plan.merges_at(3));
  EXPECT_EQ(plan.lag_updates(), 2) << "rounded up";
  RoundMember member(plan, {0}, 0, 0);
  member.contributed(0, /*update=*/3, true);
  answer_all(member, 0);
  EXPECT_FALSE(member.merge_due(/*backwards_done=*/17, false).has_value());
  ASSERT_TRUE(member.merge_due(18, false).has_value());
  EXPECT_EQ(member.merge_due(18, false)->lag_backwards, 6);
  EXPECT_EQ(member.merge_due(16, /*flush=*/true)->lag_backwards, 4);
  EXPECT_TRUE(on_arrival().merges_at(3));
}

// It has two rounds of slack, or less if its round is answered already.
TEST(RoundMember, JumpsAheadIfItHasFallenBehind) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  member.contributed(0, 1, true);
  member.heard_of(3);
  EXPECT_EQ(member.next_round(), 1) << "within the slack";
  member.heard_of(4);
  EXPECT_EQ(member.next_round(), 4);
  RoundMember answered(on_arrival(), {0}, 0, 0);
  answered.contributed(0, 1, true);
  answered.deliver(answer(1, 0));
  EXPECT_EQ(answered.next_round(), 2) << "round 1 is closed";
  answered.heard_of(3);
  EXPECT_EQ(answered.next_round(), 3);
}

TEST(RoundMember, NeverFallsBehindWithoutADeadline) {
  LanePlan plan = {.replicas = kChunks};
  plan.lag_backwards = 1;
  RoundMember member(plan, {0}, 0, 0);
  member.heard_of(50);
  EXPECT_EQ(member.next_round(), 0);
  EXPECT_FALSE(member.follows());
}

TEST(RoundMember, FollowsForACycleAfterMissingMoreThanOne) {
  RoundMember member(on_arrival(/*cycle=*/5), {0}, 0, 0);
  member.contributed(0, 1, true);
  member.heard_of(7);
  EXPECT_FALSE(member.follows()) << "a cycle and the slack";
  member.heard_of(8);
  ASSERT_EQ(member.next_round(), 8);
  EXPECT_TRUE(member.follows());
  for (int64_t round = 8; round < 13; ++round) {
    EXPECT_TRUE(member.follows()) << round;
    member.contributed(round, round, /*sent=*/false);
  }
  EXPECT_FALSE(member.follows()) << "a cycle later it counts again";
}

// It falls back by more than a cycle per round, and counts every second time.
TEST(RoundMember, AVerySlowMemberDoesNotFollowForever) {
  RoundMember member(on_arrival(/*cycle=*/1), {0}, 0, 0);
  int64_t update = 0;
  std::vector<bool> said;
  for (int64_t round = 10; round < 60; round += 10) {
    member.heard_of(round);
    said.push_back(!member.follows());
    member.contributed(round, ++update, said.back());
  }
  EXPECT_THAT(said, ElementsAre(false, true, false, true, false));
}

TEST(RoundMember, MergesRoundsItDidNotContributeTo) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  answer_all(member, 3);
  const auto due = member.merge_due(7, false);
  ASSERT_TRUE(due.has_value());
  EXPECT_FALSE(due->sent);
  EXPECT_EQ(due->lag_backwards, 0);
  EXPECT_THAT(merge_all(member, 7), ElementsAre("3.0", "3.1"));
}

TEST(RoundMember, GivesUpAfter64Rounds) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  for (int64_t round = 0; round < 64; ++round) {
    EXPECT_THAT(member.stale(round), IsEmpty());
    member.contributed(round, round + 1, true);
  }
  EXPECT_EQ(member.in_flight().size(), 64U);
  member.deliver(answer(0, 0));  // while the next contribution is made
  ASSERT_THAT(member.stale(64), ElementsAre(0));
  member.forget(0);
  member.contributed(64, 65, true);
  EXPECT_EQ(member.in_flight().size(), 64U);
  EXPECT_EQ(member.missed(), kChunks);
  answer_all(member, 0);
  EXPECT_THAT(merge_all(member, 65), IsEmpty()) << "they arrived too late";
}

TEST(RoundMember, AnswersFromBeforeAJumpAreDropped) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  answer_all(member, 3);
  member.contributed(100, 1, /*sent=*/false);
  EXPECT_FALSE(member.merge_due(1, false).has_value());
  EXPECT_EQ(member.missed(), kChunks);
}

TEST(RoundMember, AnswersForAPausedMemberAreBounded) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  for (int64_t round = 0; round < 300; ++round) answer_all(member, round);
  EXPECT_EQ(member.missed(), 44 * kChunks);
  EXPECT_EQ(member.merge_due(0, false)->round, 44) << "the newest 256 rounds are kept";
}

TEST(RoundMember, AFlushDropsWhatIsInFlight) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  member.contributed(0, 1, true);
  member.contributed(1, 2, true);
  member.deliver(answer(0, 0));
  member.deliver(answer(2, 0));
  member.flush();
  EXPECT_EQ(member.dropped(), 2);
  EXPECT_THAT(member.in_flight(), IsEmpty());
  answer_all(member, 1);
  EXPECT_THAT(merge_all(member, 9), ElementsAre("2.0")) << "others are ahead, and it follows";
  EXPECT_EQ(member.rounds_begun(), 2);
}

LanePlan guarded() {
  LanePlan plan = on_arrival();
  plan.lag_limit = 4;
  return plan;
}
Message stretching(int64_t round, int64_t chunk, int64_t stretch) {
  Message message = answer(round, chunk);
  message.stretch = stretch;
  return message;
}

TEST(RoundMember, ALongLagWantsALongerInterval) {
  RoundMember member(guarded(), {0}, 0, 0);
  for (int64_t round = 0; round < 60; ++round) {
    member.contributed(round, round + 1, true);
    answer_all(member, round);
    while (const auto due = member.merge_due(round + 9, false)) {
      member.merged(due->round, due->chunk, static_cast<double>(due->lag_backwards));
    }
  }
  EXPECT_EQ(member.stretch_wanted(), 2) << "a lag of eight where four are allowed: every second";
  EXPECT_TRUE(member.contributes_at(61)) << "no answer says so yet";
  member.deliver(stretching(60, 0, 2));
  EXPECT_FALSE(member.contributes_at(61));
  EXPECT_TRUE(member.contributes_at(62));
}

// Whatever a worker's own lag: all replicas hear the same answers.
TEST(RoundMember, StretchesTheIntervalAsTheNewestAnswerSays) {
  RoundMember member(guarded(), {0}, 0, 0);
  member.deliver(stretching(5, 0, 3));
  EXPECT_EQ(member.stretch(), 3);
  member.deliver(stretching(4, 1, 7));
  EXPECT_EQ(member.stretch(), 3) << "an older round";
  member.deliver(stretching(5, 1, 2));
  EXPECT_EQ(member.stretch(), 3) << "the largest of a round's chunks";
  member.deliver(stretching(6, 0, 1));
  EXPECT_EQ(member.stretch(), 1);
  for (const int64_t wrong : {int64_t{0}, int64_t{-5}, INT64_MAX}) {
    member.deliver(stretching(7, 0, wrong));
    EXPECT_GE(member.stretch(), 1);
    EXPECT_LE(member.stretch(), 1000) << "messages are not trusted";
  }
  RoundMember free(on_arrival(), {0}, 0, 0);
  free.deliver(stretching(5, 0, 3));
  EXPECT_EQ(free.stretch(), 1) << "without a guard";
}

// In the simulator messages arrive between the two ends of a merge: a worker that has stood still
// for long has a full inbox, and the next answer pushes out the one that is being merged.
TEST(RoundMember, AnAnswerMayBePushedOutWhileItIsMerged) {
  RoundMember member(on_arrival(), {0}, 0, 0);
  member.contributed(0, 1, true);
  int64_t round = 0;
  for (; member.missed() == 0; ++round) answer_all(member, round);
  const auto due = member.merge_due(1, /*flush=*/false);
  ASSERT_TRUE(due && due->arrived);
  answer_all(member, round);
  EXPECT_FALSE(member.has_answer(due->round, due->chunk));
  member.merged(due->round, due->chunk, static_cast<double>(due->lag_backwards));
  EXPECT_FALSE(merge_all(member, 2).empty());
}

TEST(RoundMemberDeathTest, AMergeNeedsItsAnswerAndIsMadeOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RoundMember member({.replicas = kChunks, .lag_backwards = 1}, {0}, 0, 0);
  member.contributed(0, 1, true);
  EXPECT_DEATH(member.answer(0, 0), "an answer that has arrived");
  EXPECT_DEATH(member.contributed(0, 2, true), "takes part in each once");
  answer_all(member, 0);
  member.merged(0, 0, 1);
  EXPECT_DEATH(member.merged(0, 0, 1), "merged once");
}

}  // namespace
}  // namespace leeway
