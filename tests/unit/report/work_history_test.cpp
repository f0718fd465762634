#include "report/work_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/temporary_folder.h"
#include "report/window.h"
#include "report/work_log.h"
#include "report_testing.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A run folder with these lines in its log.
void write_run(const TemporaryFolder& folder, const std::string& log) {
  ASSERT_TRUE(write_atomically(folder / "config.toml", "").ok());
  ASSERT_TRUE(write_atomically(folder / "events.jsonl", log).ok());
}

Result<WorkSurvey> read_survey(const Path& folder) {
  LEEWAY_ASSIGN(const WorkLog log, WorkLog::open(folder));
  return log.survey();
}

std::string lines_of(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += event_of(piece).line() + "\n";
  return text;
}

TEST(WorkHistory, HasALanePerWorkerInOrder) {
  auto pieces = two_stages();
  pieces.push_back({.stage = 1, .begin = 3, .end = 7, .replica = 1});
  pieces.push_back({.stage = 0, .begin = 0, .end = 3, .replica = 1});
  const WorkHistory history = history_of(pieces);
  ASSERT_EQ(history.lanes.size(), 4u);
  EXPECT_EQ(history.lanes[1].worker, (WorkerId{{0}, {1}}));
  EXPECT_EQ(history.lanes[2].worker, (WorkerId{{1}, {0}}));
  EXPECT_EQ(history.lanes[0].records.size(), 5u);
  EXPECT_EQ(history.records(), 12u);
  EXPECT_EQ(history.replicas(), 2);
  EXPECT_EQ(history.stages(), 2);
  EXPECT_EQ(history.span, (TimeSpan{{0}, {95}}));
}

TEST(WorkHistory, WorkIsSortedByBegin) {
  const WorkHistory history = history_of({{.begin = 10, .end = 12}, {.begin = 0, .end = 20}});
  EXPECT_EQ(history.lanes[0].records[0].times.end.count, 20);
}

TEST(WorkHistory, OtherEventsAreIgnored) {
  const WorkHistory history = work_history(
      {Event("started").add("seed", 1), event_of({.end = 5}), Event("update").add("update", 1)});
  EXPECT_EQ(history.records(), 1u);
}

TEST(WorkHistory, AResumedSessionReplacesWhatItRepeats) {
  const WorkHistory history = work_history({event_of({.begin = 0, .end = 10, .update = 1}),
                                            event_of({.begin = 10, .end = 20, .update = 2}),
                                            Event("resumed").add("update", 1),
                                            event_of({.begin = 12, .end = 30, .update = 2}),
                                            event_of({.begin = 30, .end = 40, .update = 3})});
  const WorkerHistory& lane = history.lanes[0];
  EXPECT_EQ(lane.records.size(), 3u);
  ASSERT_EQ(lane.sessions(), 2u);
  EXPECT_EQ(lane.session(0).size(), 1u);
  EXPECT_EQ(lane.session(1).front().times.end.count, 30);
  EXPECT_THAT(history.flushes, ElementsAre(0, 1));
  EXPECT_EQ(history.last_update, 3);
}

TEST(WorkLog, AnIncompleteLastLineIsLeftOutAndNoted) {
  const TemporaryFolder folder;
  write_run(folder, lines_of(two_stages()) + R"({"event":"work","kind":"forw)");
  const auto survey = read_survey(folder.path());
  ASSERT_TRUE(survey.ok()) << survey.error().message;
  EXPECT_TRUE(survey->cut);
  EXPECT_EQ(survey->records, 10u);
}

TEST(WorkLog, GarbageInTheMiddleNamesTheLine) {
  const TemporaryFolder folder;
  const std::string log = (folder / "events.jsonl").string();
  const auto complaint = [&](const std::string& line) {
    write_run(folder, lines_of({{.end = 1}}) + line + "\n" + lines_of({{.end = 1}}));
    const auto history = read_survey(folder.path());
    return history.ok() ? "" : history.error().message;
  };
  EXPECT_THAT(complaint("rubbish"), HasSubstr(log + ":2 is not an event"));
  EXPECT_THAT(complaint(R"({"event":"work","kind":"forward"})"),
              HasSubstr(log + ":2: a piece of work has no \"microbatch\"; remove the line"));
  EXPECT_THAT(complaint(event_of({.begin = 5, .end = 4}).line()),
              HasSubstr(":2: a piece of work ends before it begins"));
  EXPECT_THAT(complaint(event_of({.begin = -5, .end = 4}).line()),
              HasSubstr(":2: a piece of work begins before the run"));
  EXPECT_THAT(complaint(event_of({.end = INT64_MAX}).line()), HasSubstr("another century"));
  EXPECT_THAT(complaint(event_of({.end = 1, .bytes = -1}).line()),
              HasSubstr("negative or too large"));
  EXPECT_THAT(complaint(event_of({.end = 1, .microbatch = INT64_MAX}).line()),
              HasSubstr("negative or too large"));
}

TEST(WorkLog, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto other = read_survey(folder.path());
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(other.error().message, HasSubstr("is not a run folder; name one"));
  ASSERT_TRUE(write_atomically(folder / "config.toml", "").ok());
  const auto no_log = read_survey(folder.path());
  ASSERT_FALSE(no_log.ok());
  EXPECT_THAT(no_log.error().message, HasSubstr("has no events.jsonl"));
  write_run(folder, "{\"event\":\"started\"}\n");
  const auto no_work = read_survey(folder.path());
  ASSERT_FALSE(no_work.ok());
  EXPECT_THAT(no_work.error().message, HasSubstr("events.jsonl records no work"));
}

TEST(WorkHistory, KnowsTheUpdatesOfTheLastAndTheFirstWorker) {
  const WorkHistory history = history_of({
      {.kind = WorkKind::kUpdate, .end = 1, .update = 1},
      {.kind = WorkKind::kUpdate, .end = 1, .update = 1, .replica = 1},
      {.kind = WorkKind::kUpdate, .begin = 1, .end = 2, .update = 2, .replica = 1},
      {.begin = 2, .end = 3, .update = 3, .replica = 1},
  });
  EXPECT_EQ(history.made_by_all, 1);
  EXPECT_EQ(history.made_by_any, 2);
}

// A survey of the log as it is read is that of its pieces in memory.
TEST(WorkLog, SurveysWhatItReadsAndCollectsWhatIsDrawn) {
  const TemporaryFolder folder;
  write_run(folder, lines_of(two_stages_and_a_round()));
  const auto log = WorkLog::open(folder.path());
  ASSERT_TRUE(log.ok());
  const auto survey = log->survey();
  ASSERT_TRUE(survey.ok());
  const WorkHistory whole = history_of(two_stages_and_a_round());
  EXPECT_EQ(survey->records, whole.records());
  EXPECT_EQ(survey->span, whole.span);
  EXPECT_EQ(survey->made_by_all, 1);
  EXPECT_EQ(survey->workers.size(), 2u);
  const auto rows = measure_stages(whole, {});
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(survey->rows[i].after_warmup.busy_ns, rows[i].after_warmup.busy_ns);
    EXPECT_EQ(survey->rows[i].bytes_sent, rows[i].bytes_sent);
  }
  const auto drawn = log->history(*survey, {{{0}, {15}}});
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(drawn->records(), 3u);
  EXPECT_EQ(log->history(*survey, {{{1000}, {1001}}})->lanes.size(), 2u) << "even if it is empty";
}

TEST(WorkLog, AnUpdateThatIsNotLoggedIsRefusedByName) {
  const TemporaryFolder folder;
  std::string text = Event("started").add("log", "auto").line() + "\n";
  for (int64_t n = 1; n <= 50; ++n) {
    text += lines_of({{.kind = WorkKind::kBackward, .begin = n, .end = n + 1, .update = n},
                      {.kind = WorkKind::kUpdate, .begin = n + 1, .end = n + 1, .update = n}});
  }
  text += Event("update").add("update", 90).line() + "\n";
  write_run(folder, text);
  const auto survey = read_survey(folder.path());
  ASSERT_TRUE(survey.ok()) << survey.error().message;
  EXPECT_TRUE(survey->partial);
  EXPECT_EQ(survey->logged, "1 to 50");
  EXPECT_EQ(survey->made_by_all, 90);
  const auto window = choose_windows(
      *survey, {.from_seconds = {}, .to_seconds = {}, .updates = UpdateRange{60, 61}});
  ASSERT_FALSE(window.ok());
  EXPECT_THAT(window.error().message,
              HasSubstr("--updates 60:61 has no logged work; the log has that of updates 1 to 50"));
  EXPECT_EQ(choose_windows(*survey, {})->front().name, "updates 1 to 50 of 90");
}

}  // namespace
}  // namespace leeway
