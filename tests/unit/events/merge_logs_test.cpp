#include "events/merge_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/superseded.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string started() { return R"({"event":"started","start":"..","run":"ab"})"; }
std::string resumed(int64_t update) {
  return R"({"event":"resumed","update":)" + std::to_string(update) + "}";
}
std::string joined(int64_t session, const std::string& more = R"("run":"ab")") {
  return R"({"event":"joined","session":)" + std::to_string(session) + R"(,"process":1,)" + more +
         "}";
}
// A line with a name to recognize it by; tick 0: the one after that of the line before.
std::string line(const std::string& name, int64_t tick = 0) {
  const std::string ticked = tick > 0 ? R"(,"tick":)" + std::to_string(tick) : "";
  return R"({"event":"note","name":")" + name + "\"" + ticked + "}";
}
std::string work(int64_t replica, int64_t stage, int64_t tick) {
  return R"({"event":"work","replica":)" + std::to_string(replica) + R"(,"stage":)" +
         std::to_string(stage) + R"(,"tick":)" + std::to_string(tick) + "}";
}

class MergeLogs : public testing::Test {
 protected:
  Path write(const std::string& name, const std::vector<std::string>& lines,
             const std::string& rest = "") const {
    std::string text;
    for (const std::string& each : lines) text += each + "\n";
    EXPECT_TRUE(write_atomically(folder_ / name, text + rest).ok());
    return folder_ / name;
  }
  Result<MergedLog> merge(const std::vector<Path>& logs,
                          const LogMergeOptions& options = {}) const {
    remove_parts(out_);
    std::filesystem::remove(out_);
    return merge_logs(logs, out_, options);
  }
  std::string refusal(const std::vector<Path>& logs) const {
    const auto merged = merge(logs);
    EXPECT_FALSE(merged.ok());
    return merged.ok() ? "" : merged.error().message;
  }
  // The merged events, each by its name or else its kind.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    const auto history = read_events(out_);
    for (const Event& event : history->events) {
      EXPECT_EQ(event.find("tick"), nullptr);
      found.push_back(event.text("name").value_or(event.kind()));
    }
    return found;
  }

  TemporaryFolder folder_;
  Path out_ = folder_ / "merged.jsonl";
};

TEST_F(MergeLogs, TicksGiveTheOrderAndThenThePlaceInTheList) {
  const Path a = write("a", {started(), line("a2"), line("a5", 5), line("a6")});
  const Path b = write("b", {joined(1), line("b2"), line("b3"), line("b6", 6)});
  const Path c = write("c", {joined(1, R"("tick":4)"), line("c5")});
  const auto merged = merge({a, b, c});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->lines, 10);
  EXPECT_THAT(merged->warnings, IsEmpty());
  EXPECT_THAT(names(),
              ElementsAre("started", "joined", "a2", "b2", "b3", "joined", "a5", "c5", "a6", "b6"));
}

TEST_F(MergeLogs, TheLogOfASingleProcessStaysAsItIs) {
  const Path a = write("a", {started(), line("x"), resumed(3), R"({"event":"n","x":1.50})"});
  ASSERT_TRUE(merge({a}).ok());
  EXPECT_EQ(*read_text(out_), *read_text(a));
}

TEST_F(MergeLogs, SessionsComeOneAfterTheOther) {
  const Path a = write("a", {started(), line("a", 90), resumed(4), line("a again"), resumed(8)});
  const Path b = write("b", {joined(1), line("b", 99), joined(3), line("b again")});
  ASSERT_TRUE(merge({a, b}).ok());
  EXPECT_THAT(names(), ElementsAre("started", "joined", "a", "b", "resumed", "a again", "resumed",
                                   "joined", "b again"));
}

TEST_F(MergeLogs, AResumedSessionSupersedesTheWorkOfAllProcesses) {
  const auto update = [](int64_t replica, int64_t n, int64_t tick) {
    return Event("work").add("replica", replica).add("update", n).add("tick", tick).line();
  };
  // The clock of the second session had moved on when the coordinator wrote its first line.
  const std::string late = R"({"event":"resumed","update":1,"tick":50})";
  const Path a = write("a", {started(), update(0, 1, 3), update(0, 2, 5), late, update(0, 2, 60)});
  const Path b =
      write("b", {joined(1), update(1, 1, 4), update(1, 2, 6), joined(2), update(1, 2, 40)});
  ASSERT_TRUE(merge({a, b}).ok());
  std::vector<std::string> kept;
  for (const Event& event : drop_superseded(read_events(out_)->events)) {
    const auto replica = event.integer("replica");
    kept.push_back(replica
                       ? std::to_string(*replica) + ":" + std::to_string(*event.integer("update"))
                       : event.kind());
  }
  EXPECT_THAT(kept,
              ElementsAre("started", "joined", "0:1", "1:1", "resumed", "joined", "1:2", "0:2"));
}

TEST_F(MergeLogs, AProcessMayJoinASessionAgainLater) {
  const Path a = write("a", {started(), line("a", 20)});
  const Path b = write("b", {joined(1), line("b"), joined(1, R"("tick":30)"), line("b again")});
  ASSERT_TRUE(merge({a, b}).ok());
  EXPECT_THAT(names(), ElementsAre("started", "joined", "b", "a", "joined", "b again"));
}

// More than one batch of each log, which is read from compressed parts and written to such.
TEST_F(MergeLogs, LongLogsAreReadAndWrittenInParts) {
  constexpr int64_t kLines = 60'000;
  constexpr int64_t kPart = 300'000;
  std::vector<Path> logs;
  for (int64_t process = 0; process < 3; ++process) {
    logs.push_back(folder_ / ("log" + std::to_string(process)));
    auto log = EventLog::open(logs.back(), false, kPart);
    ASSERT_TRUE(log.ok());
    Event first(process == 0 ? "started" : "joined");
    ASSERT_TRUE(log->write(first.add("session", 1)).ok());
    for (int64_t n = 0; n < kLines; ++n) {
      const int64_t tick = 2 + 3 * n + process;
      ASSERT_TRUE(log->write(Event("note").add("n", tick).add("tick", tick)).ok());
    }
  }
  uint64_t last_done = 0;
  const auto progress = [&](uint64_t done, uint64_t total) -> Status {
    EXPECT_LE(last_done, done);
    EXPECT_LE(done, total);
    last_done = done;
    return {};
  };
  const auto merged = merge(logs, {.progress = progress, .start = {}, .part_bytes = kPart});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->lines, 3 * kLines + 3);
  EXPECT_GT(last_done, 0u);
  EXPECT_GT(log_end(out_)->part, 10);
  int64_t expected = 2;
  const auto history = read_events(out_);
  for (size_t i = 3; i < history->events.size(); ++i) {
    ASSERT_EQ(history->events[i].integer("n"), expected++);
  }
  EXPECT_EQ(expected, 3 * kLines + 2);
  const auto stop = [](uint64_t, uint64_t) -> Status { return stopped_error("stopped"); };
  EXPECT_EQ(merge(logs, {.progress = stop, .start = {}}).error().kind, ErrorKind::kInterrupted);
}

TEST_F(MergeLogs, AnIncompleteLastLineIsLeftOut) {
  const Path a = write("a", {started(), line("a")}, R"({"event":"upd)");
  const Path b = write("b", {joined(1), line("b")}, line("cut before its newline"));
  const Path c = write("c", {}, R"({"event":"joi)");
  const Path d = write("d", {joined(1)});
  const auto merged = merge({a, b, c, d});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_THAT(names(), ElementsAre("started", "joined", "joined", "a", "b"));
  EXPECT_THAT(merged->warnings,
              ElementsAre(AllOf(HasSubstr(a.string()), HasSubstr("ends in an incomplete line")),
                          AllOf(HasSubstr(b.string()), HasSubstr("ends in an incomplete line")),
                          AllOf(HasSubstr(c.string()), HasSubstr("has no complete line"))));
}

TEST_F(MergeLogs, TheWayToTheStartCanBeReplaced) {
  const Path a = write("a", {started(), line("a")});
  ASSERT_TRUE(merge({a}, {.progress = {}, .start = "../../there"}).ok());
  EXPECT_EQ(read_events(out_)->events.front().text("start"), "../../there");
  EXPECT_EQ(read_events(out_)->events.front().text("run"), "ab");
}

TEST_F(MergeLogs, NeedsTheCoordinatorsLogOnceAndFirst) {
  const Path a = write("a", {started()});
  const Path b = write("b", {joined(1)});
  EXPECT_THAT(refusal({b}), HasSubstr("none of the logs begins with `started`"));
  EXPECT_THAT(refusal({b, a}), HasSubstr("a is the log of the coordinator's process; name its"));
  EXPECT_THAT(refusal({a, write("c", {started()}), b}),
              AllOf(HasSubstr("both " + a.string() + " and "), HasSubstr("two runs")));
  EXPECT_THAT(refusal({a, write("d", {line("x")})}),
              HasSubstr("d:1 is neither `started` nor `joined`"));
  EXPECT_THAT(refusal({a, folder_ / "none"}), HasSubstr("there is no log"));
}

TEST_F(MergeLogs, EveryLogIsNamedOnce) {
  const Path a = write("a", {started(), work(0, 0, 3)});
  const Path b = write("b", {joined(1), work(1, 0, 3)});
  std::filesystem::create_symlink(b, folder_ / "link");
  EXPECT_THAT(refusal({a, b, b}), HasSubstr("is named twice"));
  EXPECT_THAT(refusal({a, b, folder_ / "link"}), HasSubstr("is named twice"));
  const Path copy = write("copy", {joined(1), work(1, 0, 3)});
  EXPECT_THAT(refusal({a, b, copy}),
              HasSubstr("the work of replica 1, stage 0 in session 1 is in two logs, " +
                        b.string() + " and " + copy.string() + ":2"));
}

TEST_F(MergeLogs, AWorkerMayMoveToAnotherProcessBetweenSessions) {
  const Path a = write("a", {started(), work(0, 0, 3), resumed(1), work(1, 0, 3)});
  const Path b = write("b", {joined(1), work(1, 0, 3), joined(2), work(0, 0, 3)});
  EXPECT_TRUE(merge({a, b}).ok());
}

TEST_F(MergeLogs, AProcessMayFillThePlaceOfAnotherInASession) {
  const Path a = write("a", {started(), line("a", 9)});
  const Path b = write("b", {joined(1), work(1, 0, 3), work(1, 0, 6)});
  const Path c = write("c", {joined(1, R"("fills":"1.0","tick":5)"), work(1, 0, 7)});
  EXPECT_TRUE(merge({a, b, c}).ok());
  EXPECT_THAT(names(), ElementsAre("started", "joined", "work", "joined", "work", "work", "a"));
  const Path d = write("d", {joined(1, R"("fills":"1.1","tick":5)"), work(1, 0, 7)});
  EXPECT_THAT(refusal({a, b, d}), HasSubstr("is in two logs"));
}

TEST_F(MergeLogs, LaterSessionsAreMergedWithWhatIsMergedAlready) {
  const Path a = write("a", {started(), joined(1), work(0, 0, 3), resumed(1), line("a")});
  const Path b = write("b", {joined(2), work(0, 0, 3)});
  EXPECT_TRUE(merge({a, b}).ok());
  EXPECT_THAT(names(), ElementsAre("started", "joined", "work", "resumed", "joined", "a", "work"));
  EXPECT_THAT(refusal({a, write("c", {joined(1), work(0, 0, 3)})}), HasSubstr("is in two logs"));
}

TEST_F(MergeLogs, RefusesLogsOfDifferentRuns) {
  const Path a = write("a", {started()});
  EXPECT_THAT(refusal({a, write("b", {joined(1, R"("run":"cd")")})}),
              HasSubstr("b:1 joins run cd, but " + a.string() + " is of run ab"));
  EXPECT_TRUE(merge({a, write("b", {joined(1, R"("x":1)")})}).ok());
  const Path unnamed = write("unnamed", {R"({"event":"started"})"});
  EXPECT_TRUE(merge({unnamed, write("b", {joined(1)})}).ok());
}

TEST_F(MergeLogs, RefusesSessionsThatTheRunDoesNotHave) {
  const Path a = write("a", {started(), resumed(2), line("a")});
  EXPECT_THAT(refusal({a, write("b", {joined(1), joined(3)})}),
              HasSubstr("b:2 joins session 3, but " + a.string() + " has 2 of them"));
  EXPECT_THAT(refusal({a, write("b", {joined(0)})}), HasSubstr("b:1 does not say which session"));
  EXPECT_THAT(refusal({a, write("b", {joined(2), joined(1)})}),
              HasSubstr("b:2 joins session 1 after session 2"));
}

TEST_F(MergeLogs, RefusesTicksThatDoNotAscend) {
  const Path a = write("a", {started()});
  const auto with = [&](const std::string& later) {
    return refusal({a, write("b", {joined(1), line("x", 7), later})});
  };
  EXPECT_THAT(with(line("y", 7)), HasSubstr("b:3 has tick 7 after tick 7"));
  EXPECT_THAT(with(line("y", 3)), HasSubstr("b:3 has tick 3 after tick 7"));
  EXPECT_THAT(with(joined(1)), HasSubstr("b:3 has tick 1 after tick 7"));
  EXPECT_THAT(with(line("y", INT64_MAX)), HasSubstr("b:3 has tick 9223372036854775807"));
  EXPECT_THAT(refusal({a, write("b", {joined(1, R"("tick":0)")})}), HasSubstr("b:1 has tick 0"));
}

TEST_F(MergeLogs, RefusesLinesThatDoNotBelong) {
  const Path a = write("a", {started()});
  const auto with = [&](const std::string& later) {
    return refusal({a, write("b", {joined(1), later})});
  };
  EXPECT_THAT(with("rubbish"), HasSubstr("b:2 is not an event"));
  EXPECT_THAT(with(started()), HasSubstr("b:2 begins a session of the coordinator"));
  EXPECT_THAT(with(resumed(2)), HasSubstr("b:2 begins a session of the coordinator"));
  EXPECT_THAT(refusal({write("c", {started(), started()})}), HasSubstr("c:2 starts a second run"));
  EXPECT_THAT(refusal({write("c", {"rubbish"})}), HasSubstr("c:1 is not an event"));
}

TEST_F(MergeLogs, OverwritesNothing) {
  const Path a = write("a", {started()});
  EXPECT_THAT(merge_logs({a}, a).error().message, HasSubstr("exists"));
  EXPECT_EQ(*read_text(a), started() + "\n");
}

}  // namespace
}  // namespace leeway
