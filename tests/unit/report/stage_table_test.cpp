#include "report/stage_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/window.h"
#include "report_testing.h"

namespace leeway {
namespace {

using testing::ElementsAre;

TEST(BusyTime, InAWindowCountsThePartInside) {
  const WorkHistory history = history_of(two_stages());
  // Stage 0 of the picture in report_testing.h: 20 and 20 and 20 and 5 of 95.
  EXPECT_DOUBLE_EQ(*busy_in(history.lanes[0], history.span).share(), 65.0 / 95.0);
  EXPECT_DOUBLE_EQ(*busy_in(history.lanes[1], history.span).share(), 65.0 / 95.0);
  // Only the part of a box inside counts.
  EXPECT_DOUBLE_EQ(*busy_in(history.lanes[0], {{15}, {45}}).share(), 10.0 / 30.0);
  EXPECT_DOUBLE_EQ(*busy_in(history.lanes[0], {{25}, {35}}).share(), 0.0);
}

TEST(BusyTime, AfterWarmUpIsFromTheFirstBackwardToTheLastUpdate) {
  const WorkHistory history = history_of(two_stages());
  EXPECT_DOUBLE_EQ(*measure_stages(history, {})[0].after_warmup.share(), 45.0 / 55.0);  // 40 to 95
  EXPECT_DOUBLE_EQ(*measure_stages(history, {})[1].after_warmup.share(), 1.0);          // 20 to 75
}

TEST(BusyTime, IdleTimeAfterTheLastUpdateIsNotABubble) {
  auto pieces = two_stages();
  pieces.push_back({.kind = WorkKind::kEvaluate, .stage = 1, .begin = 500, .end = 600});
  EXPECT_DOUBLE_EQ(*measure_stages(history_of(pieces), {})[1].after_warmup.share(), 1.0);
}

TEST(BusyTime, RoundsAreWorkAndDoNotExtendTheRun) {
  auto pieces = two_stages();
  // Stage 0 reduces in its gaps from 20 to 40 and from 60 to 70.
  const Piece reduce = {.kind = WorkKind::kReduce, .replicas = {0, 1}};
  for (const auto& [begin, end] : {std::pair(38, 40), std::pair(62, 68)}) {
    pieces.push_back(reduce);
    pieces.back().begin = begin;
    pieces.back().end = end;
  }
  EXPECT_DOUBLE_EQ(*busy_in(history_of(pieces).lanes[0], {{0}, {95}}).share(), 73.0 / 95.0);
  EXPECT_DOUBLE_EQ(*measure_stages(history_of(pieces), {})[0].after_warmup.share(), 51.0 / 55.0);
  // An owner's work for others after its own training does not extend its run.
  pieces.push_back(reduce);
  pieces.back().begin = 900;
  pieces.back().end = 910;
  EXPECT_DOUBLE_EQ(*measure_stages(history_of(pieces), {})[0].after_warmup.share(), 51.0 / 55.0);
}

TEST(BusyTime, EverySessionWarmsUpAgain) {
  std::vector<Event> events;
  for (const Piece& piece : two_stages()) events.push_back(event_of(piece));
  events.push_back(Event("resumed").add("update", 1));
  for (Piece piece : two_stages()) {
    piece.begin += 1000;
    piece.end += 1000;
    piece.update = 2;
    events.push_back(event_of(piece));
  }
  const BusyTime busy = measure_stages(work_history(events), {})[0].after_warmup;
  EXPECT_DOUBLE_EQ(busy.whole_ns, 110.0);
  EXPECT_DOUBLE_EQ(busy.busy_ns, 90.0);
}

TEST(BusyTime, OverlappingWorkCountsOnce) {
  const WorkHistory history = history_of({{.kind = WorkKind::kBackward, .begin = 0, .end = 10},
                                          {.kind = WorkKind::kBackward, .begin = 5, .end = 20},
                                          {.kind = WorkKind::kBackward, .begin = 6, .end = 8},
                                          {.kind = WorkKind::kUpdate, .begin = 30, .end = 40}});
  EXPECT_DOUBLE_EQ(*measure_stages(history, {})[0].after_warmup.share(), 30.0 / 40.0);
}

TEST(BusyTime, NoTimeHasNoShare) {
  const WorkHistory history = history_of({{.begin = 0, .end = 10}});
  EXPECT_EQ(measure_stages(history, {})[0].after_warmup.share(), std::nullopt);
}

TEST(MeasureStages, AddsUpReplicas) {
  auto pieces = two_stages();
  for (Piece piece : two_stages()) {
    piece.replica = 1;
    pieces.push_back(piece);
  }
  const WorkHistory history = history_of(pieces);
  const auto rows = measure_stages(history, {history.span, {{15}, {45}}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].stage, StageId{0});
  EXPECT_DOUBLE_EQ(*rows[0].drawn[0].share(), 65.0 / 95.0);
  EXPECT_DOUBLE_EQ(*rows[0].drawn[1].share(), 10.0 / 30.0);
  EXPECT_DOUBLE_EQ(*rows[0].after_warmup.share(), 45.0 / 55.0);
  EXPECT_EQ(rows[0].bytes_sent, 400.0);
  EXPECT_EQ(rows[1].bytes_sent, 200.0);
  EXPECT_DOUBLE_EQ(*total(rows).after_warmup.share(), 100.0 / 110.0);
}

Piece backward(int64_t update, int64_t delay) {
  return {.kind = WorkKind::kBackward, .end = 1, .update = update, .delay = delay};
}

TEST(MeasureStages, DelayLeavesOutFillingThePipeline) {
  const auto rows =
      measure_stages(history_of({backward(1, 0), backward(2, 1), backward(2, 0)}), {});
  EXPECT_DOUBLE_EQ(*rows[0].delay_mean(), 0.5);
  EXPECT_EQ(rows[0].delay_max, 1);
  EXPECT_EQ(measure_stages(history_of({backward(1, 0)}), {})[0].delay_mean(), std::nullopt);
}

TEST(MeasureStages, DelayLeavesOutUpdatesAfterACheckpoint) {
  // Two updates late: two updates are early, and two again after the checkpoint at update 3.
  const auto rows = measure_stages(history_of({backward(1, 0),
                                               backward(2, 1),
                                               backward(3, 2),
                                               {.kind = WorkKind::kSave, .end = 1, .update = 3},
                                               backward(4, 0),
                                               backward(5, 1),
                                               backward(6, 2)}),
                                   {});
  EXPECT_EQ(rows[0].delayed, 2);
  EXPECT_DOUBLE_EQ(*rows[0].delay_mean(), 2.0);
}

TEST(StageText, IsATable) {
  const WorkHistory history = history_of(two_stages());
  const auto rows = measure_stages(history, {history.span});
  const TextTable table = stage_text(rows, {"busy, drawn"});
  EXPECT_THAT(table.header, ElementsAre("stage", "busy, drawn", "after warm-up", "bubbles", "delay",
                                        "max", "sent"));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_THAT(table.rows[0], ElementsAre("0", "68.4 %", "81.8 %", "18.2 %", "-", "0", "200 bytes"));
  EXPECT_EQ(table.rows[2][0], "all");
}

TEST(StageText, ALagIsNoDelay) {
  const WorkHistory history = history_of(two_stages_and_a_round());
  const TextTable table = stage_text(measure_stages(history, {}), {});
  // A merge's lag is not a gradient's delay.
  EXPECT_THAT(table.rows[0], ElementsAre("0", "81.8 %", "18.2 %", "-", "0", "350 bytes"));
}

TEST(StageText, BytesHaveTheirUnit) {
  const auto text = [](int64_t bytes) {
    const auto rows = measure_stages(history_of({{.end = 1, .bytes = bytes}}), {});
    return stage_text(rows, {}).rows[0].back();
  };
  EXPECT_EQ(text(999), "999 bytes");
  EXPECT_EQ(text(1500), "1.5 kB");
  EXPECT_EQ(text(2'155'700'000), "2.2 GB");
}

// Ten updates of 10 ns, busy for 8 of them; the log has the first two and the ninth, and the round
// in the gap.
TEST(MeasureStages, OnlyTheTimeThatTheLogCoversCounts) {
  WorkSurveyor surveyor;
  WorkHistoryBuilder builder;
  const auto add = [&](const Piece& piece, std::optional<size_t> stretch) {
    const WorkRecord record = *work_of(event_of(piece));
    surveyor.add(record, stretch);
    if (stretch) builder.add(record, *stretch);
  };
  const auto update = [&](int64_t number, size_t stretch) {
    const int64_t at = number * 10;
    add({.kind = WorkKind::kBackward, .begin = at - 10, .end = at - 4, .update = number}, stretch);
    add({.kind = WorkKind::kUpdate, .begin = at - 2, .end = at, .update = number}, stretch);
  };
  update(1, 1);
  update(2, 1);
  add({.kind = WorkKind::kMerge, .begin = 40, .end = 41, .update = 4, .replicas = {0}}, {});
  add({.kind = WorkKind::kUpdate, .begin = 78, .end = 80, .update = 8}, 2);
  update(9, 2);
  const WorkSurvey survey = std::move(surveyor).finish(/*partial=*/true);
  EXPECT_DOUBLE_EQ(survey.rows[0].after_warmup.busy_ns, 16 + 8);
  EXPECT_DOUBLE_EQ(survey.rows[0].after_warmup.whole_ns, 20 + 10);
  EXPECT_THAT(survey.stretches, ElementsAre(UpdateRange{1, 2}, UpdateRange{9, 9}));
  builder.cover_only_sessions();
  const WorkHistory history = std::move(builder).finish();
  const BusyTime drawn = busy_in(history.lanes[0], {{10}, {100}});
  EXPECT_DOUBLE_EQ(drawn.busy_ns, 8 + 2 + 8);
  EXPECT_DOUBLE_EQ(drawn.whole_ns, 10 + 12);
  const auto windows = choose_windows(survey, {});
  ASSERT_TRUE(windows.ok());
  EXPECT_EQ(windows->back().span, (TimeSpan{{80}, {90}})) << "in a stretch, not between them";
}

}  // namespace
}  // namespace leeway
