#include "optim/direction.h"

#include <gtest/gtest.h>

#include <cmath>

namespace leeway {
namespace {

TEST(Direction, PlainMomentumIsTheMomentum) {
  const Direction direction = momentum_direction(0.9, false);
  EXPECT_EQ(direction.gradient, 0.0);
  EXPECT_EQ(direction.momentum, 1.0);
}

TEST(Direction, NesterovIsTheMomentumOneStepAhead) {
  // m' = b m + (1-b) g: the same gradient once more on top of the momentum.
  const Direction direction = momentum_direction(0.75, true);
  EXPECT_DOUBLE_EQ(direction.gradient, 0.25);
  EXPECT_DOUBLE_EQ(direction.momentum, 0.75);
}

TEST(Direction, AdamCorrectsTheInitialBias) {
  // After one update m = (1-b1) g, so d = g.
  EXPECT_DOUBLE_EQ(adam_direction(0.9, 1).momentum * (1 - 0.9), 1.0);
  EXPECT_DOUBLE_EQ(adam_direction(0.5, 2).momentum, 1 / 0.75);
  EXPECT_EQ(adam_direction(0.9, 1).gradient, 0.0);
}

TEST(Direction, NadamMomentumWarmsUpFromHalf) {
  EXPECT_NEAR(nadam_momentum(0.99, 1), 0.99 * 0.5, 1e-4);
  EXPECT_LT(nadam_momentum(0.99, 10), nadam_momentum(0.99, 1000));
  EXPECT_NEAR(nadam_momentum(0.99, 1'000'000), 0.99, 1e-12);
}

TEST(Direction, NadamOfTheFirstUpdate) {
  const double mu1 = 0.9 * (1 - 0.5 * std::pow(0.96, 0.004));
  const double mu2 = 0.9 * (1 - 0.5 * std::pow(0.96, 0.008));
  const Direction direction = nadam_direction(0.9, 1, mu1);
  EXPECT_DOUBLE_EQ(direction.gradient, 1.0);  // (1 - mu_1) / (1 - mu_1)
  EXPECT_DOUBLE_EQ(direction.momentum, mu2 / (1 - mu1 * mu2));
}

}  // namespace
}  // namespace leeway
