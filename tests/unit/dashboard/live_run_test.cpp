#include "dashboard/live_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ManualClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void pass(double seconds) { now_.count += static_cast<int64_t>(seconds * 1e9); }

 private:
  Nanos now_ = {};
};

class LiveRunTest : public testing::Test {
 protected:
  void begin() { ASSERT_TRUE(write_atomically(folder_ / "config.toml", "[run]\n").ok()); }
  void append(const std::string& line) {
    std::ofstream(folder_ / "events.jsonl", std::ios::app) << line << "\n";
  }
  void update(int64_t number) {
    append(Event("update").add("update", number).add("loss", 1.0).line());
  }
  int64_t updates() { return run_.look()->runs.front().headline.updates; }

  TemporaryFolder folder_;
  ManualClock clock_;
  LiveRun run_ = LiveRun(clock_);
};

TEST_F(LiveRunTest, BeginsWhenTheRunBegins) {
  EXPECT_THAT(run_.look()->runs.front().notes, Contains(HasSubstr("has not begun")));
  run_.follow(folder_.path(), RunWriter::kAnother);
  EXPECT_THAT(run_.look()->runs.front().notes, Contains(HasSubstr("has not begun")));
  begin();
  update(1);
  clock_.pass(2);
  EXPECT_EQ(updates(), 1);
  EXPECT_THAT(run_.look()->data, HasSubstr("\"updates\":1,"));
}

TEST_F(LiveRunTest, ReadsAgainAfterASecondAndSharesTheSnapshot) {
  begin();
  run_.follow(folder_.path(), RunWriter::kAnother);
  update(1);
  const auto first = run_.look();
  update(2);
  clock_.pass(0.5);
  EXPECT_EQ(run_.look(), first);
  clock_.pass(0.5);
  const auto second = run_.look();
  EXPECT_EQ(second->number, first->number + 1);
  EXPECT_EQ(second->runs.front().headline.updates, 2);
  clock_.pass(2);
  EXPECT_EQ(run_.look(), second) << "nothing was written";
  update(3);
  EXPECT_EQ(run_.last_look()->runs.front().headline.updates, 3);
}

TEST_F(LiveRunTest, EndsWhenTheSummaryIsWritten) {
  begin();
  run_.follow(folder_.path(), RunWriter::kAnother);
  update(1);
  append(Event("ended").add("update", 1).add("finished", true).line());
  EXPECT_FALSE(run_.look()->ended);
  ASSERT_TRUE(write_atomically(folder_ / "summary.json", R"({"updates": 7})").ok());
  clock_.pass(2);
  EXPECT_TRUE(run_.look()->ended);
  EXPECT_EQ(updates(), 7);
}

TEST_F(LiveRunTest, ARunThatDivergedHasEnded) {
  begin();
  run_.follow(folder_.path(), RunWriter::kAnother);
  update(1);
  append(Event("diverged").add("update", 1).line());
  EXPECT_TRUE(run_.look()->ended);
  EXPECT_THAT(run_.look()->data, HasSubstr("\"state\":\"diverged\""));
}

// A resumed run has the summary of its last session until it begins.
TEST_F(LiveRunTest, ARunOfThisProgramEndsWhenTheProgramSaysSo) {
  begin();
  update(1);
  append(Event("ended").add("update", 1).add("finished", false).line());
  ASSERT_TRUE(write_atomically(folder_ / "summary.json", R"({"updates": 1})").ok());
  run_.follow(folder_.path(), RunWriter::kThisProgram);
  EXPECT_FALSE(run_.look()->ended);
  EXPECT_THAT(run_.look()->data, HasSubstr("\"ended\":false"));
  EXPECT_THAT(run_.look()->data, HasSubstr("\"state\":\"running\""));
  EXPECT_TRUE(run_.last_look()->ended);
}

TEST_F(LiveRunTest, ARunOfThisProgramIsRunning) {
  begin();
  update(1);
  run_.follow(folder_.path(), RunWriter::kThisProgram);
  EXPECT_EQ(state_word(run_.look()->runs.front().state), "running");
  EXPECT_THAT(run_.look()->runs.front().notes, testing::IsEmpty());
  EXPECT_EQ(state_word(run_.last_look()->runs.front().state), "unfinished") << "it was cut off";
}

TEST_F(LiveRunTest, ARunOfAnotherProgramSaysWhenItLastWrote) {
  begin();
  update(1);
  run_.follow(folder_.path(), RunWriter::kAnother);
  EXPECT_EQ(state_word(run_.look()->runs.front().state), "unfinished");
  EXPECT_TRUE(run_.look()->runs.front().written_at.has_value());
}

TEST_F(LiveRunTest, AReplacedRunIsReadFromItsStart) {
  begin();
  run_.follow(folder_.path(), RunWriter::kAnother);
  update(1);
  update(2);
  EXPECT_EQ(updates(), 2);
  std::filesystem::remove(folder_ / "events.jsonl");
  update(1);
  clock_.pass(2);
  EXPECT_EQ(updates(), 1);
}

TEST_F(LiveRunTest, ReportsWhatCannotBeRead) {
  begin();
  run_.follow(folder_.path(), RunWriter::kAnother);
  update(1);
  append("garbage");
  EXPECT_THAT(run_.look()->runs.front().notes, Contains(HasSubstr("events.jsonl:2")));
  EXPECT_EQ(updates(), 1);
  update(2);
  clock_.pass(2);
  EXPECT_THAT(run_.look()->runs.front().notes, Contains(HasSubstr("events.jsonl:2"))) << "still";
}

}  // namespace
}  // namespace leeway
