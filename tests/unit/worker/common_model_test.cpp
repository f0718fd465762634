// The two sides of a common model by themselves: numbers without gaps, everything once, and what is
// lost is known to be lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common_testing.h"
#include "worker/common_member.h"
#include "worker/common_owner.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Contribution = CommonMember::Contribution;

LanePlan plan_of(int64_t replicas, bool on_arrival = true) {
  LanePlan plan = {.replicas = replicas};
  plan.common = true;
  if (on_arrival) {
    plan.deadline = Nanos{1000};
  } else {
    plan.lag_backwards = 1;
  }
  return plan;
}

Message part(int64_t replica, int64_t number, int64_t table = 0, int64_t have = 0) {
  Message message = {.kind = MessageKind::kContribution,
                     .from = {.replica = {replica}, .stage = {0}},
                     .to = {},
                     .index = number};
  if (number > 0) message.replicas = ReplicaSet::of({replica});
  message.have = have;
  message.since = message.envelope.table = table;
  return message;
}

TEST(CommonMember, KnowsWhatOfItsOwnIsInAnAnswerAndWhatIsLost) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  for (int64_t n = 1; n <= 4; ++n) member.contributed(n, n, /*table=*/0, {true}, /*last=*/false);
  member.deliver(answer(1, {{{0}, 1}, {{0}, 3}}));
  const auto due = member.merge_due(/*backwards_done=*/5, /*flush=*/false);
  ASSERT_TRUE(due && due->arrived && due->counts);
  EXPECT_EQ(due->lag_backwards, 2) << "since the newest part in it";
  const CommonMember::Settled settled = member.settles(*member.log(0).next());
  EXPECT_THAT(settled.in, ElementsAre(1, 3));
  EXPECT_THAT(settled.lost, ElementsAre(2)) << "it was overtaken, so it never came";
  member.merged(*member.log(0).next(), /*lag_updates=*/2, /*hash=*/0);
  EXPECT_EQ(member.lost(), 1);
  EXPECT_FALSE(member.merge_due(5, false));
}

TEST(CommonMember, WhatWentToAnOwnerThatIsNoMoreIsLost) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  member.contributed(1, 1, /*table=*/0, {true}, false);
  member.contributed(2, 2, /*table=*/3, {true}, false);
  const Message later = answer(1, {{{0}, 2}}, /*since=*/3);
  EXPECT_THAT(member.settles(later).lost, ElementsAre(1));
  EXPECT_THAT(member.settles(answer(1, {{{1}, 7}}, /*since=*/3)).lost, ElementsAre(1));
  EXPECT_THAT(member.settles(answer(1, {{{1}, 7}})).lost, IsEmpty()) << "it may still come";
}

TEST(CommonMember, WithAFixedLagAnAnswerIsWaitedForAndNotTakenEarly) {
  CommonMember member(plan_of(1, /*on_arrival=*/false), {.replica = {0}, .stage = {0}}, {});
  member.contributed(1, 1, 0, {true}, false);
  EXPECT_FALSE(member.merge_due(1, false));
  ASSERT_TRUE(member.merge_due(2, false));
  EXPECT_FALSE(member.merge_due(2, false)->arrived);
  member.deliver(answer(1, {{{0}, 1}}));
  EXPECT_FALSE(member.merge_due(1, false)) << "its lag is one update";
  EXPECT_TRUE(member.merge_due(1, /*flush=*/true)->arrived);
  EXPECT_TRUE(member.merge_due(2, false)->arrived);
  member.adopt({}, {1});
  EXPECT_TRUE(member.merge_due(1, false)) << "after a change of members nobody waits";
}

TEST(CommonMember, ALagMayEndInsideAnUpdate) {
  LanePlan plan = plan_of(1, /*on_arrival=*/false);
  plan.update_every = 4;
  plan.lag_backwards = 2;
  CommonMember member(plan, {.replica = {0}, .stage = {0}}, {});
  member.contributed(1, /*update=*/3, 0, {true}, false);
  member.deliver(answer(1, {{{0}, 1}}));
  EXPECT_FALSE(member.merge_due(/*backwards_done=*/13, false));
  ASSERT_TRUE(member.merge_due(14, false));
  EXPECT_EQ(member.merge_due(14, false)->lag_backwards, 2);
}

// On a GPU answers are not packed. A fixed lag keeps all that somebody can lack who is on time.
TEST(CommonMember, KeepsAnswersThatArePackedOnlyOnTheirWay) {
  constexpr int64_t kLag = 10;
  LanePlan plan = plan_of(1, /*on_arrival=*/false);
  plan.lag_backwards = kLag;
  plan.sizes = {{.cut = {.parameters = 1'000'000}, .wire = WireFormat::kTernary, .threshold = 1.5}};
  CommonMember member(plan, {.replica = {0}, .stage = {0}}, {});
  for (int64_t n = 1; n <= 4 * kLag; ++n) {
    Message next = answer(n, {});
    next.payload_bytes = encoded_bytes(WireFormat::kTernary, 1'000'000, at::kFloat);
    member.deliver(next);
    member.merged(*member.log(0).next(), /*lag_updates=*/kLag, /*hash=*/0);
  }
  EXPECT_NE(member.log(0).find(member.log(0).applied() - 2 * kLag - 1), nullptr);
}

// The last contribution is repeated until nothing of this worker is lost; then it says so.
TEST(CommonMember, EndsWhenNothingIsLeft) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  const Boundary end_of_run = {.update = 2, .updates = 2, .flushes = true, .ends = true};
  const auto due = [&] { return member.contribution_due(end_of_run, /*last=*/true); };
  member.contributed(1, 1, 0, {true}, false);
  ASSERT_EQ(due(), Contribution::kSteps);
  member.contributed(2, 2, 0, {true}, /*ends=*/true);
  EXPECT_EQ(due(), Contribution::kNone) << "it is under way";
  member.deliver(answer(1, {{{0}, 2}}));
  member.merged(*member.log(0).next(), 0, 0);
  ASSERT_EQ(due(), Contribution::kSteps) << "the first one was lost";
  member.contributed(3, 2, 0, {true}, true);
  member.deliver(answer(2, {{{0}, 3}}));
  member.merged(*member.log(0).next(), 0, 0);
  ASSERT_EQ(due(), Contribution::kEnd);
  member.contributed(3, 2, 0, {}, true);
  EXPECT_EQ(due(), Contribution::kNone);
  EXPECT_FALSE(member.drained(ReplicaSet::first(1)));
  Message last = answer(3, {});
  last.ended = ReplicaSet::first(1);
  member.deliver(last);
  member.merged(*member.log(0).next(), 0, 0);
  EXPECT_TRUE(member.drained(ReplicaSet::first(1)));
}

// The owner of a chunk has been away for long: what could not be sent to it is left at the end.
TEST(CommonMember, AtTheEndSendsWhatItCouldNotSend) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  for (int64_t n = 1; n <= 64; ++n) {
    ASSERT_TRUE(member.may_send(0));
    member.contributed(n, n, /*table=*/0, {true}, /*ends=*/false);
  }
  EXPECT_FALSE(member.may_send(0));
  EXPECT_EQ(member.newest_under_way(0), 64);
  member.contributed(65, 65, 0, {false}, /*ends=*/true);
  std::vector<PartId> all;
  for (int64_t n = 1; n <= 64; ++n) all.push_back({{0}, n});
  member.deliver(answer(1, all));
  member.merged(*member.log(0).next(), 0, 0);
  EXPECT_EQ(member.lost(), 0);
  const Boundary end = {.update = 65, .updates = 65, .flushes = true, .ends = true};
  EXPECT_EQ(member.contribution_due(end, /*last=*/true), Contribution::kSteps);
}

// Where a session ends early, steps stay where they are: only what is under way is waited for.
TEST(CommonMember, AStopWaitsForWhatIsUnderWay) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  const Boundary stop = {.update = 1, .updates = 1, .flushes = true, .ends = true, .stops = true};
  const auto due = [&] { return member.contribution_due(stop, /*last=*/false); };
  ASSERT_EQ(due(), Contribution::kSteps);
  member.contributed(1, 1, 0, {true}, false);
  ASSERT_EQ(due(), Contribution::kWait);
  member.contributed(1, 1, 0, {false}, true);
  EXPECT_EQ(due(), Contribution::kNone);
  Boundary saved = stop;
  saved.saved = true;
  EXPECT_EQ(member.contribution_due(saved, false), Contribution::kEnd)
      << "nothing changes any more";
  member.deliver(answer(1, {{{0}, 1}}));
  member.merged(*member.log(0).next(), 0, 0);
  ASSERT_EQ(due(), Contribution::kEnd);
  member.contributed(1, 1, 0, {}, true);
  EXPECT_EQ(due(), Contribution::kNone);
  member.begin_session();
  EXPECT_EQ(member.contribution_due({.update = 2, .updates = 2}, false), Contribution::kSteps);
}

// Of what is older than a whole chunk remembers, nobody knows whether it counted: not again.
TEST(CommonMember, AWholeChunkSaysWhatIsInIt) {
  CommonMember member(plan_of(1), {.replica = {0}, .stage = {0}}, {});
  for (const int64_t n : {1, 2, 3, 4}) member.contributed(n, n, 0, {true}, false);
  Message whole = answer(200, {});
  whole.whole = true;
  whole.counted = {{.replica = {0}, .newest = 3, .before = 0b101}};
  EXPECT_THAT(member.settles(whole).in, ElementsAre(1, 3));
  EXPECT_THAT(member.settles(whole).lost, ElementsAre(2));
  whole.counted = {{.replica = {0}, .newest = 66, .before = 1}};
  const auto settled = member.settles(whole);
  EXPECT_THAT(settled.in, ElementsAre(1, 2)) << "too old to know";
  EXPECT_EQ(settled.unknown, 2);
  EXPECT_THAT(settled.lost, ElementsAre(3, 4));
}

// A chunk that is found to be different is replaced, even by an older one: what came since is
// applied again.
TEST(CommonOwner, TakesAllThatHasComeWhenEverybodyHasContributed) {
  CommonOwner owner(plan_of(2), {0}, 0, Membership(2));
  owner.deliver(part(0, 1));
  owner.deliver(part(0, 2));
  EXPECT_FALSE(owner.closable(0));
  owner.deliver(part(1, 1));
  ASSERT_TRUE(owner.closable(0));
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{0}, 1}, PartId{{0}, 2}, PartId{{1}, 1}));
  owner.closed(owner.next_parts());
  EXPECT_FALSE(owner.closable(1));
  owner.deliver(part(1, 1));
  owner.deliver(part(0, 2));
  EXPECT_THAT(owner.next_parts(), IsEmpty()) << "they have been counted";
}

TEST(CommonOwner, WithAFixedLagTakesOneOfEach) {
  CommonOwner owner(plan_of(2, /*on_arrival=*/false), {0}, 0, Membership(2));
  for (const Message& message : {part(0, 1), part(0, 2), part(1, 1)}) owner.deliver(message);
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{0}, 1}, PartId{{1}, 1}));
}

TEST(CommonOwner, GoesOnAtTheDeadlineAndDoesNotWaitAgainForTheAbsent) {
  CommonOwner owner(plan_of(2), {0}, 0, Membership(2));
  owner.deliver(part(0, 1));
  EXPECT_TRUE(owner.await_due());
  owner.awaits();
  owner.deliver({.kind = MessageKind::kDeadline, .from = {}, .to = {}});
  ASSERT_TRUE(owner.closable(0));
  owner.closed(owner.next_parts());
  owner.deliver(part(0, 2));
  EXPECT_TRUE(owner.closable(1)) << "nobody has heard of replica 1";
  owner.deliver(part(1, 1));
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{0}, 2}, PartId{{1}, 1})) << "never too late";
}

// After a change of members one may have sent a number to the owner before, and the other not yet.
TEST(CommonOwner, WithAFixedLagWaitsForNobodyThatIsPastIt) {
  CommonOwner owner(plan_of(3, /*on_arrival=*/false), {1}, 0, Membership(3));
  owner.adopt(Membership(3).without({0}, 1), /*moved=*/true);
  owner.deliver(part(1, 7, /*table=*/1));
  Message past = part(2, 0, /*table=*/1);
  past.index = 7;
  EXPECT_FALSE(owner.closable(0));
  owner.deliver(past);
  ASSERT_TRUE(owner.closable(0));
  EXPECT_THAT(owner.next_parts(), IsEmpty()) << "first it says that it is the owner";
  owner.closed({});
  ASSERT_TRUE(owner.closable(1));
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{1}, 7}));
}

// It hears from all how far they are, and gets what it lacks, before it gives a number of its own.
TEST(CommonOwner, TakesOverWhereTheFurthestIs) {
  CommonOwner owner(plan_of(3), {1}, 0, Membership(3));
  const Membership after = Membership(3).without({0}, 1);
  owner.adopt(after, /*moved=*/true);
  EXPECT_EQ(owner.since(), 1);
  owner.deliver(part(1, 8, /*table=*/1, /*have=*/5));
  owner.deliver(part(2, 8, /*table=*/0, /*have=*/6));
  EXPECT_FALSE(owner.closable(5)) << "replica 2 has not heard of the table";
  owner.deliver(part(2, 9, /*table=*/1, /*have=*/6));
  EXPECT_FALSE(owner.closable(5)) << "replica 2 has an answer that this one lacks";
  ASSERT_TRUE(owner.ahead(5));
  EXPECT_EQ(owner.ahead(5)->first, ReplicaId{2});
  EXPECT_TRUE(owner.closable(6));
  owner.closed({});
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{1}, 8}, PartId{{2}, 9}))
      << "what was sent by the old table is lost";
}

// A part that is sent again was first sent to the owner before: its sender will know that it is
// lost.
TEST(CommonOwner, TakesNothingThatWasFirstSentToAnother) {
  CommonOwner owner(plan_of(2), {0}, 0, Membership(2));
  owner.adopt(Membership(2).without({1}, 1), /*moved=*/true);
  owner.deliver(part(0, 0, /*table=*/1));
  owner.closed({});
  Message again = part(0, 5, /*table=*/1);
  again.since = 0;
  owner.deliver(again);
  EXPECT_THAT(owner.next_parts(), IsEmpty());
  owner.deliver(part(0, 6, /*table=*/1));
  EXPECT_THAT(owner.next_parts(), ElementsAre(PartId{{0}, 6}));
}

TEST(CommonOwner, SaysThatAllHaveEnded) {
  CommonOwner owner(plan_of(2), {0}, 0, Membership(2));
  for (int64_t replica = 0; replica < 2; ++replica) {
    EXPECT_FALSE(owner.closable(0));
    Message end = part(replica, 0);
    end.ended = ReplicaSet::of({replica});
    owner.deliver(end);
  }
  ASSERT_TRUE(owner.closable(0));
  EXPECT_THAT(owner.next_parts(), IsEmpty());
  EXPECT_EQ(owner.ended(), ReplicaSet::first(2));
  owner.closed({});
  EXPECT_FALSE(owner.closable(1)) << "once";
}

}  // namespace
}  // namespace leeway
