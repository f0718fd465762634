// What a worker saves, and what it says of it.
#include <gtest/gtest.h>

#include "../../support/mesh_testing.h"
#include "worker/worker.h"
#include "worker_story.h"

namespace leeway {
namespace {

RunPlan saving_plan(int64_t stages, int64_t updates, int64_t checkpoint_every = 0) {
  return {.shape = {.order = PipelineSchedule::kAsync, .stages = stages, .update_every = 1},
          .first_update = 0,
          .last_update = updates,
          .run_updates = updates,
          .checkpoint_every = checkpoint_every,
          .saves = true,
          .activation_bytes = 100};
}

// A disk that a test answers for.
class HeldDisk : public HandDriver {
 public:
  using HandDriver::HandDriver;
  void store(std::shared_ptr<const StageState> state) override { held.push_back(state); }
  std::vector<std::shared_ptr<const StageState>> held;
};

TEST(WorkerSaves, IsDoneWhenItsLastStateIsStored) {
  const RunPlan plan = saving_plan(1, 4, /*checkpoint_every=*/3);
  const Workers workers = make_workers_without_compute(plan);
  Worker& worker = *workers[0];
  MemoryRecorder recorder;
  HeldDisk disk(workers);
  EXPECT_FALSE(disk.run(recorder)) << "it goes on while the disk writes, but is not done";
  EXPECT_EQ(story(recorder, 0), "F0 B0 U1 F1 B1 U2 F2 B2 U3 S3 F3 B3 U4 S4");
  ASSERT_EQ(disk.held.size(), 2U);
  EXPECT_FALSE(disk.held[0]->last);
  EXPECT_TRUE(disk.held[1]->last);
  worker.deliver(stored_message(*disk.held[0], ShardStore::Stored{}));
  EXPECT_FALSE(worker.done()) << "an older one";
  worker.deliver(store_again_message(*disk.held[1], Error{"no room"}));
  EXPECT_FALSE(worker.done()) << "it is tried again";
  worker.deliver(stored_message(*disk.held[1], Error{"the user gave up"}));
  EXPECT_TRUE(worker.done());
  ASSERT_TRUE(disk.run(recorder));
  ASSERT_EQ(recorder.shards.size(), 3U);
  EXPECT_TRUE(recorder.shards[0].stored());
  EXPECT_TRUE(recorder.shards[1].again);
  EXPECT_EQ(recorder.shards[2].error, "the user gave up");
}

// Keeps what workers report, too.
class HeldReports final : public HeldDisk {
 public:
  using HeldDisk::HeldDisk;
  void send(Message message) override {
    if (message.to != kCoordinator) return HeldDisk::send(std::move(message));
    const auto* const saved = std::get_if<ShardSaved>(message.report.get());
    if (saved != nullptr) reported.push_back(*saved);
    finished += std::holds_alternative<Finished>(*message.report) ? 1 : 0;
  }
  // False: it has nothing to do.
  bool give_turn(Worker& worker, MemoryRecorder& recorder) {
    const auto work = worker.next();
    if (work) worker.finish(*work, worker.run(*work), *this, recorder);
    return work.has_value();
  }
  std::vector<ShardSaved> reported;
  int finished = 0;
};

// The recorder of a coordinator in another process is gone with it.
TEST(WorkerSaves, TellsACoordinatorThatKnowsNothingWhatItHasSaved) {
  const RunPlan plan = saving_plan(1, 4);
  const Workers workers = make_workers_without_compute(plan);
  Worker& worker = *workers[0];
  MemoryRecorder recorder;
  HeldReports driver(workers);
  while (driver.give_turn(worker, recorder)) {
  }
  ASSERT_EQ(driver.held.size(), 1U);
  worker.deliver(stored_message(*driver.held[0], ShardStore::Stored{.file = "shard"}));
  while (driver.give_turn(worker, recorder)) {
  }
  EXPECT_EQ(driver.finished, 1);
  ASSERT_EQ(driver.reported.size(), 1U);
  const auto order = [&](MessageKind kind, int64_t index, int64_t update = 0) {
    worker.deliver(
        {.kind = kind, .from = kCoordinator, .to = worker.id(), .index = index, .update = update});
    while (driver.give_turn(worker, recorder)) {
    }
  };
  order(MessageKind::kHeard, 100);  // all that it has said
  order(MessageKind::kTellAgain, 100);
  EXPECT_EQ(driver.finished, 1) << "this one knows";
  order(MessageKind::kTellAgain, 0, /*update=*/1);
  EXPECT_EQ(driver.finished, 2);
  ASSERT_EQ(driver.reported.size(), 2U);
  EXPECT_EQ(driver.reported[1].file, "shard");
}

// Stage 0 names the end when the other stage has already saved that update, as one on the way.
TEST(WorkerSaves, ASessionMayEndWithAStateThatWasSavedOnTheWay) {
  for (const bool stored : {false, true}) {
    const RunPlan plan = saving_plan(2, 100, /*checkpoint_every=*/3);
    const Workers workers = make_workers_without_compute(plan);
    MemoryRecorder recorder;
    HeldReports driver(workers);
    while (driver.held.size() < 2) {
      for (const auto& worker : workers) driver.give_turn(*worker, recorder);
    }
    Worker& last = *workers[1];
    const auto state = driver.held[driver.held[0]->worker == last.id() ? 0 : 1];
    ASSERT_FALSE(state->last);
    if (stored) last.deliver(stored_message(*state, ShardStore::Stored{}));
    last.deliver({.kind = MessageKind::kFlushAt, .from = {{0}, {0}}, .to = last.id(), .index = 3});
    EXPECT_FALSE(last.done()) << "nobody has heard that this is the last one";
    while (driver.give_turn(last, recorder)) {
    }
    if (!stored) {
      ASSERT_EQ(driver.held.size(), 3U);
      last.deliver(stored_message(*state, ShardStore::Stored{}));
      EXPECT_FALSE(last.done());
      last.deliver(stored_message(*driver.held[2], ShardStore::Stored{}));
    }
    EXPECT_TRUE(last.done());
    while (driver.give_turn(last, recorder)) {
    }
    ASSERT_EQ(driver.reported.size(), 2U);
    EXPECT_FALSE(driver.reported[0].last);
    EXPECT_TRUE(driver.reported[1].last);
  }
}

TEST(WorkerSaves, OnlyItsOwnDriverTellsOfItsState) {
  const RunPlan plan = saving_plan(2, 4);
  const Workers workers = make_workers_without_compute(plan);
  const StageState other = {.worker = {{0}, {1}}, .update = 1};
  Message message = stored_message(other, ShardStore::Stored{});
  EXPECT_EQ(workers[1]->check(message), "");
  EXPECT_NE(workers[0]->check(message), "");
  message.to = {{0}, {0}};
  EXPECT_NE(workers[0]->check(message), "") << "from another worker";
  message.from = message.to;
  EXPECT_NE(workers[0]->check(message), "") << "about another worker's state";
  message.report = nullptr;
  EXPECT_NE(workers[0]->check(message), "");
}

// Between naming a piece of work and its end, a driver in virtual time delivers messages.
TEST(WorkerSaves, ATableThatComesWhileAnotherOneIsAdoptedRestartsNobody) {
  RunPlan plan = saving_plan(1, 100);
  plan.saves = false;
  plan.replicas = plan.evaluation.replicas = 3;
  const Workers workers = make_workers_without_compute(plan);
  Worker& worker = *workers[1];
  HeldReports driver(workers);
  MemoryRecorder recorder;
  const auto tell = [&](const Membership& table) {
    Message news = {.kind = MessageKind::kTable, .from = kCoordinator, .to = worker.id()};
    news.table = std::make_shared<const Membership>(table);
    worker.deliver(std::move(news));
  };
  const Membership back =
      Membership(3).without({1}, 1).with({1}, {.epoch = 2, .update = 5}, /*incarnations=*/{});
  tell(back);
  while (worker.counts().updates < 8) ASSERT_TRUE(driver.give_turn(worker, recorder));
  const Membership third = back.without({0}, 3);
  const Membership fourth = third.without({2}, 4);
  tell(third);
  const Work adoption = worker.next().value();
  tell(fourth);
  worker.finish(adoption, worker.run(adoption), driver, recorder);
  EXPECT_EQ(worker.table(), third);
  EXPECT_TRUE(driver.give_turn(worker, recorder));
  EXPECT_EQ(worker.table(), fourth);
  EXPECT_EQ(worker.counts().updates, 8);
}

}  // namespace
}  // namespace leeway
