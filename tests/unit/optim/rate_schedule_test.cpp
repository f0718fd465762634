#include "optim/rate_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace leeway {
namespace {

TEST(Schedule, WarmUpRisesInEqualStepsToTheFullRate) {
  const RateScheduleOptions options = {.updates = 100, .warmup = 4};
  EXPECT_DOUBLE_EQ(rate_factor(options, 0), 0.25);
  EXPECT_DOUBLE_EQ(rate_factor(options, 1), 0.5);
  EXPECT_DOUBLE_EQ(rate_factor(options, 2), 0.75);
  EXPECT_DOUBLE_EQ(rate_factor(options, 3), 1.0);
  EXPECT_LT(rate_factor(options, 4), 1.0);
}

TEST(Schedule, WithoutWarmUpTheFirstUpdateHasTheFullRate) {
  for (const auto shape : {RateSchedule::kCosine, RateSchedule::kLinear, RateSchedule::kConstant,
                           RateSchedule::kWsd}) {
    EXPECT_DOUBLE_EQ(rate_factor({.shape = shape, .updates = 10}, 0), 1.0);
  }
}

TEST(Schedule, LinearIsAStraightLine) {
  const RateScheduleOptions options = {
      .shape = RateSchedule::kLinear, .updates = 11, .warmup = 0, .final = 0.5};
  EXPECT_DOUBLE_EQ(rate_factor(options, 2), 0.9);
  EXPECT_DOUBLE_EQ(rate_factor(options, 5), 0.75);
  EXPECT_DOUBLE_EQ(rate_factor(options, 10), 0.5);
}

TEST(Schedule, CosineIsHalfwayDownInTheMiddle) {
  const RateScheduleOptions options = {
      .shape = RateSchedule::kCosine, .updates = 13, .warmup = 3, .final = 0.1};
  EXPECT_DOUBLE_EQ(rate_factor(options, 7), 0.55);
  const double quarter = 0.1 + 0.9 * 0.5 * (1 + std::cos(0.3 * std::numbers::pi));
  EXPECT_DOUBLE_EQ(rate_factor(options, 5), quarter);
  EXPECT_NEAR(rate_factor(options, 12), 0.1, 1e-15);
}

TEST(Schedule, WsdFallsOnlyInTheLastFifth) {
  const RateScheduleOptions options = {
      .shape = RateSchedule::kWsd, .updates = 101, .warmup = 0, .final = 0.0};
  EXPECT_DOUBLE_EQ(rate_factor(options, 80), 1.0);
  EXPECT_NEAR(rate_factor(options, 85), 0.75, 1e-12);
  EXPECT_NEAR(rate_factor(options, 90), 0.5, 1e-12);
  EXPECT_NEAR(rate_factor(options, 100), 0.0, 1e-12);
}

TEST(Schedule, ConstantIgnoresFinal) {
  const RateScheduleOptions options = {
      .shape = RateSchedule::kConstant, .updates = 5, .warmup = 2, .final = 0.1};
  EXPECT_DOUBLE_EQ(rate_factor(options, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate_factor(options, 4), 1.0);
}

TEST(Schedule, TheLastFactorRemainsPastTheEnd) {
  const RateScheduleOptions options = {
      .shape = RateSchedule::kLinear, .updates = 5, .warmup = 0, .final = 0.2};
  EXPECT_DOUBLE_EQ(rate_factor(options, 100), rate_factor(options, 4));
}

TEST(Schedule, ARunOfOneUpdateHasTheFullRate) {
  EXPECT_DOUBLE_EQ(rate_factor({.updates = 1, .warmup = 0}, 0), 1.0);
  EXPECT_DOUBLE_EQ(rate_factor({.updates = 1, .warmup = 1}, 0), 1.0);
}

TEST(Schedule, ARunThatIsAllWarmUpHasNoDecay) {
  const RateScheduleOptions options = {.updates = 5, .warmup = 10};
  EXPECT_DOUBLE_EQ(rate_factor(options, 4), 0.5);
}

}  // namespace
}  // namespace leeway
