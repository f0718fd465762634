#include "terminal/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace leeway {
namespace {

class HandClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void pass(double seconds) { now_.count += static_cast<int64_t>(seconds * 1e9); }

 private:
  Nanos now_;
};

// Captured stderr is a file, so these see what a log sees.
class ProgressLines : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  static std::string lines() { return testing::internal::GetCapturedStderr(); }
  HandClock clock_;
};

TEST_F(ProgressLines, OneAtEveryTenthWithTimeLeft) {
  Progress progress(clock_, "training", 100);
  for (uint64_t done = 0; done <= 100; ++done) {
    progress.show(done, "loss 2");
    clock_.pass(1.0);
  }
  const std::string printed = lines();
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 10);
  EXPECT_THAT(printed, testing::StartsWith("training  10%  loss 2  1 min 30 s left\n"));
  EXPECT_THAT(printed, testing::EndsWith("training 100%  loss 2\n"));
}

TEST_F(ProgressLines, ShortWorkIsQuiet) {
  Progress progress(clock_, "training", 100);
  for (uint64_t done = 0; done <= 100; ++done) {
    progress.show(done, "");
    clock_.pass(0.001);
  }
  EXPECT_EQ(lines(), "");
}

TEST_F(ProgressLines, SlowWorkPrintsALineEveryHalfMinute) {
  Progress progress(clock_, "reading", 0);
  for (int i = 0; i < 62; ++i) {
    progress.show(static_cast<uint64_t>(i), std::to_string(i));
    clock_.pass(1.0);
  }
  EXPECT_EQ(lines(), "reading  30\nreading  60\n");
}

TEST_F(ProgressLines, AResumedRunCountsTimeFromWhereItBegan) {
  Progress progress(clock_, "training", 100);
  clock_.pass(50);  // loading
  progress.show(80, "");
  clock_.pass(10);
  progress.show(90, "");
  EXPECT_THAT(lines(), testing::EndsWith("training  90%  10 s left\n"));
}

TEST_F(ProgressLines, NotesAndLastWordsAreSeparateLines) {
  Progress progress(clock_, "training", 10);
  progress.note("saved");
  clock_.pass(3);
  progress.finish("10 updates");
  EXPECT_EQ(lines(), "saved\ntraining: 10 updates in 3.0 s\n");
}

}  // namespace
}  // namespace leeway
