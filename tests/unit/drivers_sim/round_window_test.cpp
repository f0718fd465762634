#include "drivers/sim/round_window.h"

#include <gtest/gtest.h>

namespace leeway::sim {
namespace {

TEST(RoundWindow, FindsRoundsWithAndWithoutGaps) {
  RoundWindow<int> window;
  for (const int64_t round : {5, 6, 7, 20, 6, 40, 19}) window[round] = static_cast<int>(round);
  for (const int64_t round : {5, 6, 7, 19, 20, 40}) {
    ASSERT_NE(window.find(round), nullptr) << round;
    EXPECT_EQ(*window.find(round), round);
  }
  for (const int64_t round : {0, 8, 21, 41}) EXPECT_EQ(window.find(round), nullptr) << round;
}

TEST(RoundWindow, ForgetsTheOldest) {
  RoundWindow<int> window;
  for (int64_t round = 0; round < 100; ++round) {
    window[round] = 1;
    EXPECT_EQ(window.forget_before(round - 9), round >= 10) << round;
    EXPECT_EQ(window.find(round - 10), nullptr);
    EXPECT_EQ(window.find(round - 9) != nullptr, round >= 9);
  }
  window[3] = 4;  // older than what was forgotten
  EXPECT_EQ(*window.find(3), 4);
  EXPECT_TRUE(window.forget_before(1000));
  EXPECT_EQ(window.find(99), nullptr);
  EXPECT_EQ(window[99], 0);
}

}  // namespace
}  // namespace leeway::sim
