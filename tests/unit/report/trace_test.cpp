#include "report/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../../support/temporary_folder.h"
#include "report_testing.h"

namespace leeway {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// All events of a phase.
std::vector<json> events_of(const Path& path, const std::string& phase) {
  const json trace = json::parse(*read_text(path));
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

// The pieces that overlap the window, in the order in which they ended.
Result<int64_t> write_trace(const Path& path, const WorkHistory& history,
                            const std::optional<TimeSpan>& window) {
  std::vector<WorkRecord> records;
  std::vector<WorkerId> workers;
  for (const WorkerHistory& lane : history.lanes) {
    workers.push_back(lane.worker);
    records.insert(records.end(), lane.records.begin(), lane.records.end());
  }
  std::stable_sort(records.begin(), records.end(), [](const WorkRecord& a, const WorkRecord& b) {
    return a.times.end < b.times.end;
  });
  LEEWAY_ASSIGN(TraceFile file, TraceFile::create(path, workers));
  for (const WorkRecord& record : records) {
    const WorkTimes& times = record.times;
    if (window && (times.begin >= window->end || times.end < window->begin)) continue;
    LEEWAY_TRY(file.add(record));
  }
  return file.finish();
}

TEST(Trace, HasEveryPieceWithItsTimesInMicroseconds) {
  const TemporaryFolder folder;
  const WorkHistory history = history_of({{.kind = WorkKind::kBackward,
                                           .stage = 2,
                                           .begin = 1'234'567,
                                           .end = 2'000'001,
                                           .microbatch = 12,
                                           .update = 4,
                                           .delay = 1,
                                           .bytes = 99,
                                           .replica = 3}});
  const auto written = write_trace(folder / "t.json", history, std::nullopt);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(*written, 1);
  const auto found = events_of(folder / "t.json", "X");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["name"], "backward 12");
  EXPECT_EQ(found[0]["pid"], 3);
  EXPECT_EQ(found[0]["tid"], 2);
  EXPECT_DOUBLE_EQ(found[0]["ts"].get<double>(), 1234.567);
  EXPECT_DOUBLE_EQ(found[0]["dur"].get<double>(), 765.434);
  EXPECT_EQ(found[0]["args"],
            (json{{"microbatch", 12}, {"update", 4}, {"version", 2}, {"delay", 1}, {"bytes", 99}}));
}

TEST(Trace, DescribesPiecesOfRounds) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      write_trace(folder / "t.json", history_of(two_stages_and_a_round()), std::nullopt).ok());
  std::map<std::string, json> arguments;
  for (const json& event : events_of(folder / "t.json", "X")) {
    arguments[event["name"]] = event["args"];
    EXPECT_THAT(event["name"].get<std::string>(), testing::StartsWith(event["cat"]));
  }
  EXPECT_EQ(arguments.at("merge 5"), (json{{"round", 5},
                                           {"lane", "main"},
                                           {"chunk", 1},
                                           {"replicas", "0"},
                                           {"lag", 2},
                                           {"update", 1},
                                           {"version", 0},
                                           {"bytes", 0}}));
  EXPECT_EQ(arguments.at("reduce 7")["replicas"], "0 2");
  EXPECT_FALSE(arguments.at("reduce 7").contains("lag"));
  EXPECT_EQ(arguments.at("contribute 7")["bytes"], 30);
  EXPECT_EQ(arguments.at("contribute 1")["lane"], "evaluation");
  EXPECT_EQ(events_of(folder / "t.json", "s").size(), 2u) << "only microbatches have arrows";
}

TEST(Trace, NamesItsProcessesAndThreads) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_trace(folder / "t.json", history_of(two_stages()), std::nullopt).ok());
  std::vector<std::string> names;
  for (const json& event : events_of(folder / "t.json", "M")) {
    if (event["args"].contains("name")) names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("replica 0", "stage 0", "stage 1"));
}

TEST(Trace, ArrowsFollowAMicrobatchThroughTheStagesAndBack) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_trace(folder / "t.json", history_of(two_stages()), std::nullopt).ok());
  const auto starts = events_of(folder / "t.json", "s");
  const auto steps = events_of(folder / "t.json", "t");
  const auto ends = events_of(folder / "t.json", "f");
  ASSERT_EQ(starts.size(), 2u);  // two microbatches
  ASSERT_EQ(steps.size(), 4u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
  EXPECT_NE(starts[0]["id"], starts[1]["id"]);
  EXPECT_EQ(starts[0]["tid"], 0);
  EXPECT_EQ(steps[0]["tid"], 1);
  EXPECT_DOUBLE_EQ(steps[0]["ts"].get<double>(), 0.010);
  EXPECT_EQ(ends[0]["tid"], 0);
}

TEST(Trace, AWindowLeavesOutTheRest) {
  const TemporaryFolder folder;
  const auto written = write_trace(folder / "t.json", history_of(two_stages()), {{{30}, {45}}});
  EXPECT_EQ(*written, 3);
  EXPECT_EQ(events_of(folder / "t.json", "X").size(), 3u);
}

TEST(Trace, AMissingFolderIsOneSentence) {
  const auto written = write_trace("no/such/t.json", history_of(two_stages()), std::nullopt);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, testing::HasSubstr("cannot write no/such/t.json"));
}

}  // namespace
}  // namespace leeway
