// The coordinator by itself: what it makes of reports that come late, twice or never, and of
// replicas that leave.
#include "worker/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/mesh_without_compute.h"
#include "drivers/loop/turn.h"

namespace leeway {
namespace {

using testing::ElementsAre;

class Diary final : public Recorder {
 public:
  void worked(const WorkRecord&) override {}
  void predicted(const Prediction&) override {}
  void refused(const RefusedMessage& refusal) override { refusals.push_back(refusal); }
  void members(const Membership& table) override { tables.push_back(table); }
  void updated(const StageUpdate& update) override { updates.push_back(update.update); }
  void evaluated(const StageEvaluation&) override {}

  std::vector<int64_t> updates;
  std::vector<Membership> tables;
  std::vector<RefusedMessage> refusals;
};

class CoordinatorTest : public testing::Test, public Outbox {
 protected:
  void send(Message message) override { sent.push_back(std::move(message)); }
  void remind(Message message, Nanos) override { reminders.push_back(std::move(message)); }
  void store(std::shared_ptr<const StageState>) override {}

  void turn(Coordinator& coordinator) {
    while (take_turn(coordinator, *this)) {
    }
  }
  // `alone`: its sender keeps none before it.
  static Message report(WorkerId from, int64_t number, Report report, bool alone = false) {
    return {.kind = MessageKind::kReport,
            .from = from,
            .to = kCoordinator,
            .index = number,
            .update = alone ? 0 : number - 1,
            .report = std::make_shared<const Report>(std::move(report))};
  }
  static Message updated(WorkerId from, int64_t update, bool applied = true) {
    const StageUpdate stage = {.worker = from, .update = update, .applied = applied};
    return report(from, update, UpdateDone{.update = update, .stage = stage});
  }
  std::vector<Message> of(MessageKind kind) const {
    std::vector<Message> found;
    for (const Message& message : sent) {
      if (message.kind == kind) found.push_back(message);
    }
    return found;
  }

  RunPlan plan = with_replicas(plan_of({.stages = 1}, 100), 3);
  Diary diary;
  std::vector<Message> sent;
  std::vector<Message> reminders;
};

TEST_F(CoordinatorTest, TakesReportsInOrderAndEachOnce) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(updated({{0}, {0}}, 1));
  coordinator.deliver(updated({{0}, {0}}, 1));
  turn(coordinator);
  EXPECT_THAT(diary.updates, ElementsAre(1));
  coordinator.deliver(updated({{0}, {0}}, 3));
  turn(coordinator);
  EXPECT_THAT(diary.updates, ElementsAre(1)) << "the second is missing";
  ASSERT_EQ(of(MessageKind::kTellAgain).size(), 1U);
  EXPECT_EQ(of(MessageKind::kTellAgain).front().to, (WorkerId{{0}, {0}}));
  coordinator.deliver(updated({{0}, {0}}, 2));
  coordinator.deliver(updated({{0}, {0}}, 3));
  turn(coordinator);
  EXPECT_THAT(diary.updates, ElementsAre(1, 2, 3));
}

TEST_F(CoordinatorTest, ReportsThatAWorkerNoLongerHasAreNotWaitedFor) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(report({{0}, {0}}, 300, UpdateDone{.update = 300}, /*alone=*/true));
  turn(coordinator);
  EXPECT_TRUE(of(MessageKind::kTellAgain).empty());
}

TEST_F(CoordinatorTest, OneReplicaNamesTheStopAndAllAreTold) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(ask_message(plan, Ask::kStop));
  turn(coordinator);
  ASSERT_EQ(of(MessageKind::kNameEnd).size(), 1U);
  EXPECT_EQ(of(MessageKind::kNameEnd).front().to, (WorkerId{{0}, {0}}));
  coordinator.deliver(ask_message(plan, Ask::kStop));
  turn(coordinator);
  EXPECT_EQ(of(MessageKind::kNameEnd).size(), 1U) << "asked once";
  coordinator.deliver(report({{0}, {0}}, 1, FlushNamed{.ends = true, .update = 7}));
  turn(coordinator);
  const auto orders = of(MessageKind::kEndAt);
  ASSERT_EQ(orders.size(), 3U);
  for (const Message& order : orders) EXPECT_EQ(order.index, 7);
}

TEST_F(CoordinatorTest, AQuestionThatIsLostIsAskedAgain) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(ask_message(plan, Ask::kStop));
  turn(coordinator);
  ASSERT_EQ(reminders.size(), 1U);
  coordinator.deliver(reminders.front());
  turn(coordinator);
  EXPECT_EQ(of(MessageKind::kNameEnd).size(), 2U);
}

TEST_F(CoordinatorTest, AnotherReplicaNamesTheStopIfTheFirstIsLost) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(ask_message(plan, Ask::kStop));
  turn(coordinator);
  coordinator.deliver(lost_message({{0}, {0}}));
  turn(coordinator);
  ASSERT_EQ(of(MessageKind::kNameEnd).size(), 2U);
  EXPECT_EQ(of(MessageKind::kNameEnd).back().to, (WorkerId{{1}, {0}}));
}

// The one that named the end is lost, and only some have heard of it: another one names a later
// end, which would wait for those that have ended already.
TEST_F(CoordinatorTest, WhoHasEndedBeforeTheOthersIsWaitedForNoLonger) {
  plan.lanes = {{.replicas = 3, .lag_backwards = 1}};
  Coordinator coordinator(plan, diary);
  coordinator.deliver(ask_message(plan, Ask::kStop));
  coordinator.deliver(lost_message({{0}, {0}}));
  turn(coordinator);
  ASSERT_EQ(diary.tables.size(), 1U);
  coordinator.deliver(report({{1}, {0}}, 1, FlushNamed{.ends = true, .update = 9}));
  coordinator.deliver(
      report({{2}, {0}}, 1, FlushNamed{.ends = true, .update = 7, .for_all = false}));
  turn(coordinator);
  EXPECT_EQ(diary.tables.size(), 1U) << "it still works for others";
  coordinator.deliver(report({{2}, {0}}, 2, Finished{.updates = 7}));
  turn(coordinator);
  ASSERT_EQ(diary.tables.size(), 2U);
  EXPECT_EQ(diary.tables.back().members(), ReplicaSet::of({1}));
  coordinator.deliver(report({{1}, {0}}, 2, Finished{.updates = 9}));
  turn(coordinator);
  EXPECT_TRUE(coordinator.over());
}

TEST_F(CoordinatorTest, AWishOfAnotherRunIsRefused) {
  RunPlan other = plan;
  other.run = 5;
  Coordinator coordinator(plan, diary);
  coordinator.deliver(ask_message(other, Ask::kAbandon));
  turn(coordinator);
  EXPECT_FALSE(coordinator.abandoned());
  EXPECT_EQ(coordinator.refused(), 1);
}

TEST_F(CoordinatorTest, AReplicaThatDivergesLeavesAndTheOthersAreTold) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(updated({{1}, {0}}, 1, /*applied=*/false));
  turn(coordinator);
  ASSERT_EQ(diary.tables.size(), 1U);
  EXPECT_EQ(diary.tables.front().number(), 1);
  EXPECT_FALSE(diary.tables.front().has({1}));
  const auto tables = of(MessageKind::kTable);
  ASSERT_EQ(tables.size(), 3U) << "itself too: it still serves";
  for (const Message& table : tables) EXPECT_EQ(*table.table, diary.tables.front());
  EXPECT_FALSE(coordinator.over());
}

TEST_F(CoordinatorTest, TheSessionIsOverWhenTheReplicasThatAreLeftAreDone) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(lost_message({{2}, {0}}));
  coordinator.deliver(report({{0}, {0}}, 1, Finished{.updates = 100}));
  turn(coordinator);
  EXPECT_FALSE(coordinator.over());
  coordinator.deliver(report({{1}, {0}}, 1, Finished{.updates = 100}));
  turn(coordinator);
  EXPECT_TRUE(coordinator.over());
  EXPECT_EQ(of(MessageKind::kOver).size(), 2U) << "nobody talks to the one that is gone";
  coordinator.deliver(report({{1}, {0}}, 2, Present{.updates = 100, .done = true, .table = {}}));
  turn(coordinator);
  EXPECT_EQ(of(MessageKind::kOver).size(), 3U) << "who has not heard of it is told again";
}

// A stage of a replica that has left is not done, and does not remind anybody of itself.
// Where empty places are filled, all go on from a checkpoint when somebody has come for each.
TEST_F(CoordinatorTest, WithNobodyLeftItWaitsForThoseWhoFillThePlaces) {
  plan = with_replicas(plan_of({.stages = 1}, 100), 2);
  for (const bool refills : {false, true}) {
    plan.refills = refills;
    Coordinator coordinator(plan, diary);
    for (int64_t replica = 0; replica < 2; ++replica) {
      coordinator.deliver(lost_message({{replica}, {0}}));
    }
    turn(coordinator);
    EXPECT_EQ(coordinator.over(), !refills);
    if (!refills) continue;
    for (int64_t replica = 0; replica < 2; ++replica) {
      Message there = report({{replica}, {0}}, 1, Present{.joins = true, .table = Membership(2)},
                             /*alone=*/true);
      there.envelope.incarnation = 1;
      coordinator.deliver(there);
      turn(coordinator);
      EXPECT_EQ(coordinator.over(), replica == 1) << "all places are filled";
    }
  }
}

// Nobody comes back from that by itself.
TEST_F(CoordinatorTest, ARunThatHasDivergedIsOverAlsoWherePlacesAreFilled) {
  plan = with_replicas(plan_of({.stages = 1}, 100), 1);
  plan.refills = true;
  Coordinator coordinator(plan, diary);
  coordinator.deliver(updated({{0}, {0}}, 1, /*applied=*/false));
  coordinator.deliver(report({{0}, {0}}, 2, Finished{.updates = 1}));
  turn(coordinator);
  EXPECT_TRUE(coordinator.over());
}

TEST_F(CoordinatorTest, WhoHasLeftIsToldSeveralTimesThatItIsOver) {
  Coordinator coordinator(plan, diary);
  coordinator.deliver(updated({{2}, {0}}, 1, /*applied=*/false));
  for (const int64_t r : {0, 1}) {
    coordinator.deliver(report({{r}, {0}}, 1, Finished{.updates = 100}));
  }
  turn(coordinator);
  EXPECT_TRUE(coordinator.over());
  for (int i = 0; i < 30 && !reminders.empty(); ++i) {
    reminders.clear();
    coordinator.deliver({.kind = MessageKind::kTick, .from = kCoordinator, .to = kCoordinator});
    turn(coordinator);
  }
  EXPECT_TRUE(reminders.empty()) << "not for ever";
  int64_t told = 0;
  for (const Message& message : of(MessageKind::kOver)) told += message.to.replica.value == 2;
  EXPECT_GE(told, 5);
}

TEST_F(CoordinatorTest, OneThatIsStartedAgainLearnsTheRunFromItsWorkers) {
  Coordinator coordinator(plan, diary, Coordinator::Start::kAgain);
  turn(coordinator);
  EXPECT_EQ(of(MessageKind::kTellAgain).size(), 3U);
  const Membership table = Membership(3).without({2}, 1);
  for (const int64_t r : {0, 1}) {
    Message present = report({{r}, {0}}, 41, Present{.updates = 40, .done = r == 0, .table = table},
                             /*alone=*/true);
    present.envelope = {.table = 1, .ends = 44};
    coordinator.deliver(present);
  }
  turn(coordinator);
  EXPECT_EQ(coordinator.table(), table);
  ASSERT_EQ(diary.tables.size(), 1U);
  coordinator.deliver(report({{1}, {0}}, 42, Finished{.updates = 44}));
  turn(coordinator);
  EXPECT_TRUE(coordinator.over());
}

// A worker that is back has spoken before it has told by which table it is.
TEST_F(CoordinatorTest, OneThatIsStartedAgainPutsNobodyOutWhoIsBack) {
  const Membership table =
      Membership(3).without({1}, 1).with({1}, {.epoch = 2, .update = 5}, {{WorkerId{{1}, {0}}, 1}});
  Coordinator coordinator(plan, diary, Coordinator::Start::kAgain);
  const auto tell = [&](int64_t replica, int64_t number, Report news) {
    Message message = report({{replica}, {0}}, number, std::move(news), /*alone=*/number == 41);
    message.envelope = {.table = 2, .incarnation = replica == 1 ? 1 : 0};
    coordinator.deliver(message);
  };
  for (int64_t r = 0; r < 3; ++r) tell(r, 41, UpdateDone{.update = 40});
  turn(coordinator);
  EXPECT_THAT(diary.tables, ElementsAre());
  EXPECT_EQ(of(MessageKind::kTellAgain).size(), 3U);
  for (int64_t r = 0; r < 3; ++r) tell(r, 42, Present{.updates = 40, .table = table});
  turn(coordinator);
  EXPECT_THAT(diary.tables, ElementsAre(table));
}

// A worker of one place must not be able to decide who is in the run.
TEST_F(CoordinatorTest, ATableThatCannotBeIsRefusedAndOneThatItKnowsBetterIsNotLearned) {
  const WorkerId from = {{0}, {0}};
  const Membership outside(7, ReplicaSet::first(200));
  const Membership endless(INT64_MAX, ReplicaSet::first(3));
  const Membership elsewhere(7, ReplicaSet::first(3), {}, {{WorkerId{{9}, {0}}, 1}});
  const Membership later(7, ReplicaSet::first(3), {{ReplicaId{1}, {.epoch = 8}}});
  const Membership beyond(7, ReplicaSet::first(3), {{ReplicaId{300}, {.epoch = 7}}});
  for (const auto start : {Coordinator::Start::kFresh, Coordinator::Start::kAgain}) {
    Coordinator coordinator(plan, diary, start);
    for (const Membership& table : {outside, endless, elsewhere, later, beyond}) {
      coordinator.deliver(report(from, 1, Present{.table = table}));
    }
    Message ahead = updated(from, 1);
    ahead.envelope.table = INT64_MAX;
    coordinator.deliver(ahead);
    turn(coordinator);
    EXPECT_EQ(coordinator.refused(), 6);
    EXPECT_EQ(coordinator.table(), Membership(3));
  }
  Coordinator coordinator(plan, diary);
  coordinator.deliver(report(from, 1, Present{.table = Membership(3).without({1}, 7)}));
  turn(coordinator);
  EXPECT_EQ(coordinator.refused(), 0);
  EXPECT_EQ(coordinator.table(), Membership(3)) << "it has made all tables itself";
}

TEST_F(CoordinatorTest, WhatIsNotForItIsRefusedAndLogged) {
  Coordinator coordinator(plan, diary);
  Message foreign = updated({{0}, {0}}, 1);
  foreign.envelope.run = 5;
  coordinator.deliver(foreign);
  Message nobody = updated({{7}, {0}}, 1);
  coordinator.deliver(nobody);
  Message other = updated({{0}, {0}}, 1);
  other.from = {{1}, {0}};
  coordinator.deliver(other);
  coordinator.deliver({.kind = MessageKind::kReport, .from = {{0}, {0}}, .to = kCoordinator});
  coordinator.deliver({.kind = MessageKind::kGradient, .from = {{0}, {0}}, .to = kCoordinator});
  coordinator.deliver(updated({{0}, {0}}, 1));
  turn(coordinator);
  EXPECT_THAT(diary.updates, ElementsAre(1));
  EXPECT_EQ(coordinator.refused(), 5);
  EXPECT_EQ(diary.refusals.size(), 5U);
}

}  // namespace
}  // namespace leeway
