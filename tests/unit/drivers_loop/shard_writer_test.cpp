#include "drivers/loop/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <string>

namespace leeway {
namespace {

using testing::ElementsAre;

// A disk that a test can hold up and let fail.
class Disk final : public ShardStore {
 public:
  std::function<void(int64_t update)> writes = {};  // called when it begins to
  Result<Stored> store(const StageState& state) override {
    if (writes) writes(state.update);
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    if (fails_ > 0) {
      --fails_;
      return Error{"no room"};
    }
    return Stored{.file = std::to_string(state.update)};
  }
  bool wait_to_store(const Error&) override {
    const std::lock_guard lock(mutex_);
    return --patience_ >= 0;
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void fail(int times, int patience) {
    const std::lock_guard lock(mutex_);
    fails_ = times;
    patience_ = patience;
  }
  void await_begun(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int begun_ = 0;
  int fails_ = 0;
  int patience_ = 0;
};

class ShardWriterTest : public testing::Test {
 protected:
  static std::shared_ptr<const StageState> state(int64_t stage, int64_t update, bool last = false) {
    StageState state = {.worker = {{0}, {stage}}, .update = update, .checkpoint = update};
    state.last = last;
    return std::make_shared<const StageState>(std::move(state));
  }
  // What workers hear, when all is written.
  std::vector<std::string> answers() {
    background_.finish();
    return {answers_.begin(), answers_.end()};
  }
  void note(const Message& message) {
    const auto& saved = std::get<ShardSaved>(*message.report);
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::to_string(saved.worker.stage.value) + "@" +
                       std::to_string(saved.update) +
                       (saved.stored()   ? " stored"
                        : saved.replaced ? " replaced"
                        : saved.again    ? " again"
                                         : " lost"));
  }

  std::mutex mutex_;
  std::deque<std::string> answers_;
  Disk disk_;
  Background background_{[](std::exception_ptr) { ADD_FAILURE() << "nothing throws here"; }};
  ShardWriter writer_{&disk_, background_, [this](const Message& message) { note(message); }};
};

TEST_F(ShardWriterTest, WritesOneAfterAnother) {
  for (const int64_t stage : {0, 1, 2}) writer_.take(state(stage, 5));
  EXPECT_THAT(answers(), ElementsAre("0@5 stored", "1@5 stored", "2@5 stored"));
}

// One is being written, one waits: that is all that is held in memory for a worker.
TEST_F(ShardWriterTest, ANewerStateTakesThePlaceOfOneThatWaits) {
  disk_.hold();
  writer_.take(state(0, 5));
  disk_.await_begun(1);
  writer_.take(state(0, 10));
  writer_.take(state(1, 10));
  writer_.take(state(0, 20));
  disk_.release();
  EXPECT_THAT(answers(), ElementsAre("0@10 replaced", "0@5 stored", "0@20 stored", "1@10 stored"));
}

// On a disk that is always busy, manifests of checkpoints have their turn too.
TEST_F(ShardWriterTest, StatesThatTakeThePlaceOfOthersGetNoTurnOfTheirOwn) {
  disk_.writes = [this](int64_t update) {
    if (update == 20) writer_.take(state(0, 40));
  };
  disk_.hold();
  writer_.take(state(0, 5));
  disk_.await_begun(1);
  writer_.take(state(0, 10));
  writer_.take(state(0, 20));
  background_.run([this] {
    const std::lock_guard lock(mutex_);
    answers_.push_back("manifest");
  });
  disk_.release();
  EXPECT_THAT(answers(),
              ElementsAre("0@10 replaced", "0@5 stored", "0@20 stored", "manifest", "0@40 stored"));
}

// Stages that find the disk busy at different times still save the same updates.
TEST_F(ShardWriterTest, TheRounderNumberStays) {
  disk_.hold();
  writer_.take(state(0, 5));
  disk_.await_begun(1);
  for (const int64_t update : {10, 20, 30}) writer_.take(state(0, update));
  for (const int64_t update : {20, 30}) writer_.take(state(1, update));
  for (const int64_t update : {20, 30, 35}) writer_.take(state(2, update, /*last=*/update == 35));
  disk_.release();
  EXPECT_THAT(answers(), ElementsAre("0@10 replaced", "0@30 replaced", "1@30 replaced",
                                     "2@30 replaced", "2@20 replaced", "0@5 stored", "0@20 stored",
                                     "1@20 stored", "2@35 stored"));
}

TEST_F(ShardWriterTest, TheLastStateIsTriedAgainUntilItIsWritten) {
  disk_.fail(/*times=*/3, /*patience=*/9);
  writer_.take(state(0, 5, /*last=*/true));
  disk_.await_begun(4);
  EXPECT_THAT(answers(), ElementsAre("0@5 again", "0@5 stored"));
}

TEST_F(ShardWriterTest, WhoGivesUpLosesTheLastState) {
  disk_.fail(/*times=*/100, /*patience=*/2);
  writer_.take(state(0, 5, /*last=*/true));
  disk_.await_begun(3);
  EXPECT_THAT(answers(), ElementsAre("0@5 again", "0@5 lost"));
}

// On the way it waits, for ten seconds or until a newer one comes.
TEST_F(ShardWriterTest, AFailedStateMakesRoomForANewerOne) {
  disk_.fail(/*times=*/1, /*patience=*/0);
  disk_.hold();
  writer_.take(state(0, 5));
  disk_.await_begun(1);
  writer_.take(state(0, 10));
  disk_.release();
  EXPECT_THAT(answers(), ElementsAre("0@5 again", "0@5 replaced", "0@10 stored"));
}

// The run has ended: what waits is written if that works at once.
TEST_F(ShardWriterTest, NothingIsTriedAgainAfterTheEnd) {
  disk_.hold();
  disk_.fail(/*times=*/1, /*patience=*/9);
  writer_.take(state(0, 5, /*last=*/true));
  writer_.take(state(1, 5));
  disk_.await_begun(1);
  writer_.close();
  disk_.release();
  EXPECT_THAT(answers(), ElementsAre("0@5 again", "0@5 lost", "1@5 stored"));
}

TEST(ShardWriterWithoutAStore, AnswersAtOnce) {
  Background background([](std::exception_ptr) {});
  int answers = 0;
  ShardWriter writer(nullptr, background, [&](const Message& message) {
    answers += std::get<ShardSaved>(*message.report).stored() ? 1 : 0;
  });
  writer.take(std::make_shared<const StageState>());
  EXPECT_EQ(answers, 1);
}

}  // namespace
}  // namespace leeway
