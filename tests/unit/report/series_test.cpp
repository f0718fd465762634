#include "report/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace leeway {
namespace {

Point point(int64_t update, double value) { return {.at = {.update = update}, .value = value}; }

TEST(Series, FewPointsStayAsTheyAre) {
  Series series(100);
  std::vector<Point> added;
  for (int64_t i = 1; i <= 40; ++i) {
    added.push_back(point(i, static_cast<double>(i * 7 % 11)));
    series.add(added.back());
  }
  EXPECT_EQ(series.points(), added);
  EXPECT_FALSE(series.thinned());
  EXPECT_EQ(series.seen(), 40);
}

TEST(Series, EmptyHasNoPoints) { EXPECT_TRUE(Series(100).points().empty()); }

TEST(Series, ManyPointsAreBoundedAndKeepEndsAndSpikes) {
  for (const int64_t count : {101, 999, 1000, 12345, 100000}) {
    Series series(100);
    for (int64_t i = 1; i <= count; ++i) {
      const bool spike = i == count / 3;
      const bool dip = i == count / 2;
      series.add(point(i, spike ? 50.0 : dip ? -50.0 : static_cast<double>(i % 5)));
    }
    const std::vector<Point> points = series.points();
    EXPECT_LE(points.size(), 100u) << count;
    EXPECT_GE(points.size(), 25u) << count;
    EXPECT_TRUE(series.thinned());
    EXPECT_EQ(series.seen(), count);
    EXPECT_EQ(points.front().at.update, 1);
    EXPECT_EQ(points.back().at.update, count);
    EXPECT_TRUE(std::is_sorted(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return a.at.update < b.at.update;
    }));
    EXPECT_THAT(points, testing::Contains(point(count / 3, 50.0)));
    EXPECT_THAT(points, testing::Contains(point(count / 2, -50.0)));
  }
}

}  // namespace
}  // namespace leeway
