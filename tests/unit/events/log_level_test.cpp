#include "events/log_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using enum LogLevel;
using enum WorkKind;
using testing::ElementsAre;

TEST(LogLevel, AutoKeepsTheFirstUpdatesAndAFewOfMany) {
  std::vector<int64_t> edges;
  for (int64_t update = 1; update <= 700; ++update) {
    if (logs_work_of(kAuto, update) != logs_work_of(kAuto, update + 1)) edges.push_back(update);
    EXPECT_TRUE(logs_work_of(kAll, update));
    EXPECT_FALSE(logs_work_of(kUpdates, update));
  }
  EXPECT_TRUE(logs_work_of(kAuto, 1));
  EXPECT_THAT(edges, ElementsAre(50, 130, 140, 380, 390, 630, 640));
}

TEST(LogLevel, RoundsAndSavesAreAlwaysLogged) {
  for (const WorkKind kind : {kContribute, kReduce, kMerge, kRepeat, kSave}) {
    EXPECT_TRUE(logs(kUpdates, {.kind = kind}, 7)) << work_kind_word(kind);
  }
  for (const WorkKind kind : {kForward, kBackward, kUpdate, kEvaluate}) {
    EXPECT_FALSE(logs(kUpdates, {.kind = kind}, 7)) << work_kind_word(kind);
    EXPECT_EQ(logs(kAuto, {.kind = kind}, 130), kind == kUpdate) << "begins the stretch";
    EXPECT_TRUE(logs(kAuto, {.kind = kind}, 131));
  }
}

TEST(LogCoverage, EverySessionHasItsLevel) {
  LogCoverage coverage;
  EXPECT_TRUE(coverage.has_work_of({0}, 99)) << "a log without sessions";
  coverage.note(Event("started").add("version", "0.1"));
  EXPECT_TRUE(coverage.complete()) << "a version without levels";
  coverage.note(Event("resumed").add("update", 60).add("update_1", 62).add("log", "updates"));
  EXPECT_FALSE(coverage.complete());
  EXPECT_TRUE(coverage.has_work_of({0}, 60));
  EXPECT_FALSE(coverage.has_work_of({0}, 61));
  EXPECT_TRUE(coverage.has_work_of({1}, 62)) << "this replica was ahead";
  EXPECT_EQ(coverage.text(100), "1 to 60");
}

TEST(LogCoverage, NamesTheFirstStretchesAndTheLast) {
  LogCoverage coverage;
  coverage.note(Event("started").add("log", "auto"));
  EXPECT_EQ(coverage.text(40), "1 to 40");
  EXPECT_EQ(coverage.text(131), "1 to 50, 131");
  EXPECT_EQ(coverage.text(500), "1 to 50, 131 to 140, 381 to 390");
  EXPECT_EQ(coverage.text(1200), "1 to 50, 131 to 140, ..., 1131 to 1140");
  LogCoverage nothing;
  nothing.note(Event("started").add("log", "updates"));
  EXPECT_EQ(nothing.text(40), "none");
}

// What one worker did, as the log of a run at `auto` has it.
TEST(LoggedStretches, BeginWithTheUpdateBeforeThem) {
  LoggedStretches stretches;
  stretches.note(Event("started").add("log", "auto"));
  const auto place = [&](WorkKind kind, int64_t update) {
    WorkRecord record;
    record.work = {.kind = kind, .update = update};
    return stretches.place(record);
  };
  const auto first = place(kForward, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(place(kForward, 52), first) << "done while an earlier update was made";
  for (int64_t update = 1; update <= 50; ++update) EXPECT_EQ(place(kUpdate, update), first);
  EXPECT_FALSE(place(kMerge, 50));
  EXPECT_FALSE(place(kSave, 60));
  const auto second = place(kUpdate, 130);
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  EXPECT_EQ(place(kMerge, 130), second);
  EXPECT_EQ(place(kBackward, 131), second);
  for (int64_t update = 131; update <= 140; ++update) EXPECT_EQ(place(kUpdate, update), second);
  EXPECT_FALSE(place(kMerge, 140));
  stretches.note(Event("resumed").add("update", 135).add("log", "auto"));
  const auto third = place(kForward, 136);
  ASSERT_TRUE(third);
  EXPECT_GT(*third, *second);
}

}  // namespace
}  // namespace leeway
