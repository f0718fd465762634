#include "report/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report_testing.h"

namespace leeway {
namespace {

using testing::ElementsAre;

std::vector<Box> boxes(const std::vector<Piece>& pieces, TimeSpan window, int64_t resolution) {
  static WorkHistory history;  // boxes point into it
  history = history_of(pieces);
  return boxes_of(history.lanes[0], window, Nanos{resolution});
}

TEST(Boxes, AreThePiecesInsideTheWindow) {
  const auto found = boxes(two_stages(), {{5}, {45}}, 0);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].span, (TimeSpan{{5}, {10}}));
  EXPECT_EQ(found[1].span, (TimeSpan{{10}, {20}}));
  EXPECT_EQ(found[2].span, (TimeSpan{{40}, {45}}));
  EXPECT_EQ(found[2].record->work.kind, WorkKind::kBackward);
}

TEST(Boxes, NarrowNeighboursBecomeOneAndWideOnesStay) {
  using enum WorkKind;
  const auto found = boxes({{.kind = kForward, .begin = 0, .end = 2},
                            {.kind = kBackward, .begin = 3, .end = 6},
                            {.kind = kForward, .begin = 8, .end = 10},
                            {.kind = kBackward, .begin = 10, .end = 30},
                            {.kind = kUpdate, .begin = 30, .end = 31}},
                           {{0}, {100}}, 10);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].record, nullptr);
  EXPECT_EQ(found[0].span, (TimeSpan{{0}, {10}}));
  EXPECT_DOUBLE_EQ(found[0].share(), 0.7);
  EXPECT_THAT(found[0].counts, ElementsAre(2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(found[1].record->work.kind, kBackward);
  EXPECT_EQ(found[2].record->work.kind, kUpdate);  // not merged, although narrow
}

TEST(Boxes, AMergedBoxIsNoWiderThanTheResolution) {
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < 100; ++i) pieces.push_back({.begin = i, .end = i + 1});
  const auto found = boxes(pieces, {{0}, {100}}, 10);
  ASSERT_EQ(found.size(), 10u);
  for (const Box& box : found) {
    EXPECT_EQ(box.span.length().count, 10);
    EXPECT_DOUBLE_EQ(box.share(), 1.0);
  }
}

TEST(Boxes, AGapOfTheResolutionStaysAGap) {
  const auto found = boxes({{.begin = 0, .end = 1}, {.begin = 20, .end = 21}}, {{0}, {100}}, 10);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].span, (TimeSpan{{20}, {21}}));
}

TEST(Boxes, WorkThatTookNoTimeIsDrawnOnceAndBusyCountsOnce) {
  const std::vector<Piece> pieces = {{.begin = 5, .end = 5}, {.begin = 7, .end = 9}};
  EXPECT_EQ(boxes(pieces, {{0}, {10}}, 0).size(), 2u);
  EXPECT_EQ(boxes(pieces, {{0}, {5}}, 0).size(), 0u);
  EXPECT_EQ(boxes(pieces, {{5}, {6}}, 0).size(), 1u);
  const auto overlapping = boxes({{.begin = 0, .end = 4}, {.begin = 1, .end = 5}}, {{0}, {10}}, 10);
  ASSERT_EQ(overlapping.size(), 1u);
  EXPECT_DOUBLE_EQ(overlapping[0].share(), 1.0);
}

TEST(LayOut, DrawsAllOfASmallRun) {
  const WorkHistory history = history_of(two_stages());
  const Drawing drawing = lay_out(history, *choose_windows(survey_of(history), {}), {});
  ASSERT_EQ(drawing.pictures.size(), 1u);
  EXPECT_EQ(drawing.pictures[0].lanes[0].boxes.size(), 5u);
  EXPECT_EQ(drawing.pictures[0].lanes[1].boxes.size(), 5u);
  EXPECT_EQ(drawing.merged, 0u);
  EXPECT_EQ(drawing.lanes_left_out, 0u);
  EXPECT_THAT(drawing.kinds, ElementsAre(true, true, true, false, false, false, false, false, false,
                                         false, false, false, false));
}

TEST(LayOut, CountsCopiesForEvaluationAsEvaluations) {
  using enum WorkKind;
  const WorkHistory history = history_of(two_stages_and_a_round());
  const Drawing drawing = lay_out(history, *choose_windows(survey_of(history), {}), {});
  std::vector<WorkKind> kinds;
  for (size_t i = 0; i < drawing.kinds.size(); ++i) {
    if (drawing.kinds[i]) kinds.push_back(static_cast<WorkKind>(i));
  }
  EXPECT_THAT(kinds,
              ElementsAre(kForward, kBackward, kUpdate, kEvaluate, kContribute, kReduce, kMerge));
  const auto together = boxes_of(history.lanes[0], {{95}, {105}}, Nanos{10});
  ASSERT_EQ(together.size(), 1u);
  EXPECT_THAT(together[0].counts, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0));
}

TEST(LayOut, NeverDrawsMoreThanItsLimits) {
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < 5000; ++i) {
    pieces.push_back({.stage = i % 5, .begin = i * 1000, .end = i * 1000 + 600});
  }
  const WorkHistory history = history_of(pieces);
  for (const size_t most : {1000u, 100u, 7u}) {
    const Drawing drawing = lay_out(history, {{"all", history.span}}, {.boxes_max = most});
    size_t drawn = 0;
    int64_t pieces_drawn = 0;
    for (const DrawnLane& lane : drawing.pictures[0].lanes) {
      drawn += lane.boxes.size();
      for (const Box& box : lane.boxes) {
        pieces_drawn += box.record != nullptr ? 1 : box.counts[0];
      }
    }
    EXPECT_LE(drawn, most);
    EXPECT_EQ(pieces_drawn, 5000) << "nothing is lost, only merged";
    EXPECT_GT(drawing.merged, 0u);
  }
}

TEST(LayOut, LeavesOutWholeReplicasAndNeverAllOfThem) {
  std::vector<Piece> pieces;
  for (int64_t replica = 0; replica < 5; ++replica) {
    for (int64_t stage = 0; stage < 3; ++stage) {
      pieces.push_back({.stage = stage, .end = 10, .replica = replica});
    }
  }
  const WorkHistory history = history_of(pieces);
  const auto lanes = [&](size_t most) {
    const Drawing drawing = lay_out(history, {{"all", history.span}}, {.lanes_max = most});
    EXPECT_EQ(drawing.lanes_left_out, 15 - drawing.pictures[0].lanes.size());
    return drawing.pictures[0].lanes.size();
  };
  EXPECT_EQ(lanes(64), 15u);
  EXPECT_EQ(lanes(8), 6u);
  EXPECT_EQ(lanes(1), 3u);
}

}  // namespace
}  // namespace leeway
