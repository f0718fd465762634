#include "worker/clip_norms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

constexpr PipelineShape kThreeStages = {.order = PipelineSchedule::k1f1b, .stages = 3};

at::Tensor squares(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kDouble);
}

TEST(ClipNorms, StageZeroAddsUpAllStages) {
  ClipNorms norms(kThreeStages, {0});
  EXPECT_TRUE(norms.shared());
  norms.set_own(squares({1, 2}));
  norms.deliver_norms(1, {2}, squares({8}));
  EXPECT_FALSE(norms.arrived(1));
  norms.deliver_norms(1, {1}, squares({4}));
  EXPECT_TRUE(norms.arrived(1));
  EXPECT_EQ(norms.total(1).item<double>(), 15);
}

// A fast stage may send the norms of the next update before this one is made.
TEST(ClipNorms, UpdatesDoNotMix) {
  ClipNorms norms(kThreeStages, {0});
  norms.set_own(squares({1}));
  norms.deliver_norms(1, {1}, squares({2}));
  norms.deliver_norms(2, {1}, squares({100}));
  norms.deliver_norms(2, {2}, squares({100}));
  EXPECT_FALSE(norms.arrived(1));
  norms.deliver_norms(1, {2}, squares({4}));
  EXPECT_EQ(norms.total(1).item<double>(), 7);
  norms.updated(1);
  EXPECT_TRUE(norms.arrived(2));
  norms.set_own(squares({1}));
  EXPECT_EQ(norms.total(2).item<double>(), 201);
}

TEST(ClipNorms, AMessageThatComesTwiceCountsOnce) {
  ClipNorms norms(kThreeStages, {0});
  norms.set_own(squares({1}));
  for (int i = 0; i < 2; ++i) norms.deliver_norms(1, {1}, squares({2}));
  EXPECT_FALSE(norms.arrived(1));
}

TEST(ClipNorms, OtherStagesWaitForTheTotal) {
  ClipNorms norms(kThreeStages, {2});
  EXPECT_FALSE(norms.arrived(1));
  norms.deliver_total(1, squares({9}));
  EXPECT_EQ(norms.total(1).item<double>(), 9);
  norms.updated(1);
  EXPECT_FALSE(norms.arrived(2));
}

TEST(ClipNorms, AsynchronousStagesShareNothing) {
  const ClipNorms norms({.order = PipelineSchedule::kAsync, .stages = 3}, {0});
  EXPECT_FALSE(norms.shared());
  EXPECT_TRUE(norms.arrived(1));
  EXPECT_FALSE(norms.total(1).defined());
}

}  // namespace
}  // namespace leeway
