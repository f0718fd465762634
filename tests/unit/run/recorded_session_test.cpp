// What a log tells a coordinator that takes a session over.
#include "run/recorded_session.h"

#include <gtest/gtest.h>

#include "../../support/temporary_folder.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

class RecordedSessionTest : public testing::Test {
 protected:
  RecordedSessionTest() {
    recipe_.mesh.replicas = 2;
    before_.update = 2;
    before_.seconds = 1.0;
    before_.bytes_averaging = 100;
    before_.recent_losses = {9.0};
  }
  void line(const std::string& text) { log_ += text + "\n"; }
  // With so many tokens fewer than planned.
  void update(int64_t number, double seconds, int64_t missed = 0) {
    RunCounters counters;
    counters.update = number;
    const int64_t tokens = tokens_read(counters, recipe_) - missed;
    line(R"({"event":"update","update":)" + std::to_string(number) + R"(,"loss":)" +
         std::to_string(number) + R"(.5,"tokens":)" + std::to_string(tokens) + R"(,"seconds":)" +
         std::to_string(seconds) + "}");
  }
  Result<RecordedSession> read(int64_t session) {
    EXPECT_TRUE(write_atomically(folder_ / "events.jsonl", log_).ok());
    return read_recorded_session(
        {.log = folder_ / "events.jsonl", .number = session, .before = before_}, recipe_, plan_);
  }

  TemporaryFolder folder_;
  Recipe recipe_;
  RunPlan plan_;
  RunCounters before_;
  std::string log_;
};

TEST_F(RecordedSessionTest, IsTheLastSessionUpToItsNewestUpdate) {
  line(R"({"event":"started","run":"0"})");
  update(1, 0.5);
  update(2, 1.0);
  line(R"({"event":"members","update":2,"table":9,"replicas":"0"})");
  line(R"({"event":"resumed","update":2,"run":"0"})");
  update(3, 2.0);
  line(R"({"event":"members","update":3,"table":2,"replicas":"0","tick":40})");
  line(R"({"event":"replaced","replica":1,"stage":0,"bytes_averaging":7,"bytes_copies":1})");
  line(R"({"event":"evaluated","update":3,"valid_loss":2.25,"replicas":"0"})");
  update(4, 3.5, /*missed=*/10);
  log_ += R"({"event":"upda)";  // it was killed here
  const Result<RecordedSession> recorded = read(2);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  const RunCounters& counters = recorded->counters;
  EXPECT_EQ(counters.update, 4);
  EXPECT_EQ(counters.tokens_missed, 10);
  EXPECT_EQ(counters.seconds, 3.5);
  EXPECT_EQ(counters.seconds_updating, 2.5);
  EXPECT_EQ(counters.recent_losses, (std::deque<double>{9.0, 3.5, 4.5}));
  EXPECT_EQ(counters.bytes_averaging, 107) << "earlier sessions, and who was replaced";
  EXPECT_EQ(counters.bytes_copies, 1);
  EXPECT_EQ(recorded->table, 2);
  EXPECT_EQ(recorded->tick, 43);
  ASSERT_TRUE(recorded->valid.mean);
  EXPECT_EQ(recorded->valid.mean->loss, 2.25);
  EXPECT_EQ(recorded->valid.mean->replicas, ReplicaSet::of({0}));
  EXPECT_FALSE(recorded->valid.own);
}

TEST_F(RecordedSessionTest, MayHaveNoUpdateYet) {
  line(R"({"event":"started","run":"0"})");
  const Result<RecordedSession> recorded = read(1);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_EQ(recorded->counters.update, 2);
  EXPECT_EQ(recorded->tick, 1);
}

}  // namespace
}  // namespace leeway
