#include "report/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text.h"
#include "report_testing.h"

namespace leeway {
namespace {

using testing::HasSubstr;

// Updates of 10 ns each, one after the other; every update is a backward and an update.
std::vector<Piece> steady(int64_t updates) {
  std::vector<Piece> pieces;
  for (int64_t n = 1; n <= updates; ++n) {
    const int64_t begin = (n - 1) * 10;
    pieces.push_back({.kind = WorkKind::kBackward, .begin = begin, .end = begin + 8, .update = n});
    pieces.push_back(
        {.kind = WorkKind::kUpdate, .begin = begin + 8, .end = begin + 10, .update = n});
  }
  return pieces;
}

TEST(UpdateRange, IsWrittenInFourWays) {
  EXPECT_EQ(*parse_update_range("3:7"), (UpdateRange{3, 7}));
  EXPECT_EQ(*parse_update_range("5"), (UpdateRange{5, 5}));
  EXPECT_EQ(*parse_update_range(":7"), (UpdateRange{1, 7}));
  EXPECT_EQ(*parse_update_range("3:"), (UpdateRange{3, INT64_MAX}));
  for (const char* text : {"", ":", "0:3", "7:3", "a:b", "3:7:9", "-1", "1.5", "3-7", " 3:7",
                           "99999999999999999999"}) {
    const auto range = parse_update_range(text);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_EQ(range.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(range.error().message, HasSubstr("such as 3:7"));
  }
}

TEST(ChooseWindows, AShortRunIsDrawnWhole) {
  const WorkHistory history = history_of(two_stages());
  const auto windows = choose_windows(survey_of(history), {});
  ASSERT_EQ(windows->size(), 1u);
  EXPECT_EQ(windows->front().span, history.span);
  EXPECT_EQ(describe(windows->front()), "the whole run (0 s to 95 ns)");
}

TEST(ChooseWindows, ALongRunIsDrawnAtItsStartAndInItsMiddle) {
  const auto windows = choose_windows(survey_of(history_of(steady(1000))), {});
  ASSERT_EQ(windows->size(), 2u);
  EXPECT_EQ((*windows)[0].name, "updates 1 to 25 of 1000");
  EXPECT_EQ((*windows)[0].span, (TimeSpan{{0}, {250}}));
  EXPECT_EQ((*windows)[1].name, "updates 500 to 524 of 1000");
  EXPECT_EQ((*windows)[1].span, (TimeSpan{{4990}, {5240}}));
}

TEST(ChooseWindows, TheMiddleIsWithoutCheckpointAndEvaluation) {
  auto pieces = steady(1000);
  pieces.push_back({.kind = WorkKind::kSave, .begin = 5000, .end = 5000, .update = 500});
  pieces.push_back({.kind = WorkKind::kEvaluate, .begin = 5300, .end = 5300, .update = 500});
  const auto windows = choose_windows(survey_of(history_of(pieces)), {});
  // 500 drains, 501 fills again, and the evaluation is between 530 and 531.
  EXPECT_EQ((*windows)[1].name, "updates 502 to 525 of 1000");
}

TEST(ChooseWindows, RoundsChangeNeitherLengthNorNames) {
  auto pieces = steady(1000);
  // An owner is asked before its own first update, and all through the run.
  for (int64_t n = 0; n < 1000; ++n) {
    pieces.push_back({.kind = WorkKind::kReduce,
                      .begin = n * 10 + 4,
                      .end = n * 10 + 4,
                      .microbatch = n,
                      .update = n,
                      .replicas = {0, 1}});
  }
  const WorkHistory history = history_of(pieces);
  EXPECT_EQ(history.first_update, 1);
  const auto windows = choose_windows(survey_of(history), {});
  ASSERT_EQ(windows->size(), 2u);
  EXPECT_EQ((*windows)[0].name, "updates 1 to 25 of 1000");
  EXPECT_EQ((*windows)[0].span, (TimeSpan{{0}, {250}}));
  EXPECT_EQ((*windows)[1].span, (TimeSpan{{4990}, {5240}}));
}

TEST(ChooseWindows, CopiesForEvaluationDisturb) {
  auto pieces = steady(1000);
  pieces.push_back({.kind = WorkKind::kContribute,
                    .begin = 5005,
                    .end = 5005,
                    .microbatch = 500,
                    .update = 500,
                    .lane = Lane::kEvaluation,
                    .replicas = {0}});
  EXPECT_EQ((*choose_windows(survey_of(history_of(pieces)), {}))[1].name,
            "updates 503 to 527 of 1000");
}

TEST(ChooseWindows, IfEverythingIsDisturbedTheMiddleIsTaken) {
  auto pieces = steady(1000);
  for (int64_t n = 1; n <= 1000; n += 10) {
    pieces.push_back({.kind = WorkKind::kSave, .begin = n * 10, .end = n * 10, .update = n});
  }
  EXPECT_EQ((*choose_windows(survey_of(history_of(pieces)), {}))[1].name,
            "updates 500 to 522 of 1000");
}

// The latest part of a long run may begin with the end of an evaluation.
TEST(ChooseWindows, APartWhoseFirstUpdatesLeftNoWorkIsDrawnWhole) {
  std::vector<Piece> pieces = steady(200);
  for (Piece& piece : pieces) piece.update += 1000;
  pieces.push_back({.kind = WorkKind::kEvaluate, .begin = 0, .end = 1, .update = 900});
  const WorkHistory history = history_of(pieces);
  const auto windows = choose_windows(survey_of(history), {});
  ASSERT_TRUE(windows.ok()) << windows.error().message;
  ASSERT_EQ(windows->size(), 1u);
  EXPECT_EQ(windows->front().span, history.span);
}

TEST(ChooseWindows, UpdatesSelectTheirTimeSpan) {
  const WorkHistory history = history_of(steady(20));
  const auto some = choose_windows(
      survey_of(history), {.from_seconds = {}, .to_seconds = {}, .updates = UpdateRange{3, 4}});
  ASSERT_EQ(some->size(), 1u);
  EXPECT_EQ(some->front().span, (TimeSpan{{20}, {40}}));
  EXPECT_EQ(some->front().name, "updates 3 to 4 of 20");
  const auto rest =
      choose_windows(survey_of(history),
                     {.from_seconds = {}, .to_seconds = {}, .updates = UpdateRange{20, 10'000}});
  EXPECT_EQ(rest->front().name, "update 20 of 20");
  const auto none = choose_windows(
      survey_of(history), {.from_seconds = {}, .to_seconds = {}, .updates = UpdateRange{21, 30}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "--updates 21:30 has no work; the run has updates 1 to 20");
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

TEST(ChooseWindows, SecondsAreSinceTheRunBegan) {
  const WorkHistory history = history_of(steady(20));
  const auto window = choose_windows(survey_of(history),
                                     {.from_seconds = 50e-9, .to_seconds = 75e-9, .updates = {}});
  EXPECT_EQ(window->front().span, (TimeSpan{{50}, {75}}));
  const auto open =
      choose_windows(survey_of(history), {.from_seconds = 50e-9, .to_seconds = {}, .updates = {}});
  EXPECT_EQ(open->front().span, (TimeSpan{{50}, {200}}));
  const auto empty =
      choose_windows(survey_of(history), {.from_seconds = 1.0, .to_seconds = 1e300, .updates = {}});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message, HasSubstr("the run has work from 0 s to 200 ns"));
  const auto wrong =
      choose_windows(survey_of(history), {.from_seconds = 2.0, .to_seconds = 1.0, .updates = {}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "--from 2 is not before --to 1");
}

TEST(Text, TimesHaveThreeDigits) {
  EXPECT_EQ(time_text({0}), "0 s");
  EXPECT_EQ(time_text({999}), "999 ns");
  EXPECT_EQ(time_text({1234}), "1.23 µs");
  EXPECT_EQ(time_text({12'345'678}), "12.3 ms");
  EXPECT_EQ(time_text({123'456'789}), "123 ms");
  EXPECT_EQ(time_text({61'234'000'000}), "61.23 s");
}

TEST(Text, NumbersAreShort) {
  EXPECT_EQ(number_text(1.0), "1");
  EXPECT_EQ(number_text(0.12345), "0.123");
  EXPECT_EQ(number_text(100.0), "100");
  EXPECT_EQ(number_text(-0.0001), "0");
}

TEST(Text, XmlIsEscaped) { EXPECT_EQ(escaped("a<b>&\"c\"\x01"), "a&lt;b&gt;&amp;&quot;c&quot;?"); }

TEST(Text, TicksAreRoundAndInside) {
  const auto found = ticks({{3'100'000'000}, {3'900'000'000}}, 4);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].label, "3.2 s");
  EXPECT_EQ(found[3].time.count, 3'800'000'000);
  EXPECT_EQ(ticks({{0}, {1}}, 10).size(), 2u);
  EXPECT_LE(ticks({{3'999'999'999'999'999'990}, {4'000'000'000'000'000'000}}, 10).size(), 11u);
}

}  // namespace
}  // namespace leeway
