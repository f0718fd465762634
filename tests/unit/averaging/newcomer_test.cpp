#include "averaging/newcomer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/merge.h"

namespace leeway {
namespace {

at::Tensor all(double value) { return at::full({4}, value); }

at::Tensor buffer_of(const WeightsAndBuffers& state, const std::string& name) {
  for (const auto& [own, buffer] : state.buffers) {
    if (own == name) return buffer;
  }
  return {};
}

bool holds(const at::Tensor& buffer, double value) {
  return buffer.defined() && at::equal(buffer, all(value));
}

WeightsAndBuffers sparse_donor() {
  return {.weights = all(7),
          .buffers = {{"momentum", all(1)},
                      {kEmaBuffer, all(2)},
                      {kAnchorBuffer, all(3)},
                      {kOuterBuffer, all(4)}}};
}

TEST(Newcomer, OfSparseThatFollowsBeginsWhereItStands) {
  const auto newcomer = newcomer_from(sparse_donor(), NewcomerStarts::kAsFollower);
  EXPECT_TRUE(holds(newcomer.weights, 7));
  EXPECT_TRUE(holds(buffer_of(newcomer, kAnchorBuffer), 7));
  EXPECT_TRUE(holds(buffer_of(newcomer, kOuterBuffer), 0));
  EXPECT_TRUE(holds(buffer_of(newcomer, kEmaBuffer), 0));
  EXPECT_TRUE(holds(buffer_of(newcomer, "momentum"), 1));
}

TEST(Newcomer, OfSparseThatBeginsWithItsDonorSharesItsAnchor) {
  const WeightsAndBuffers donor = sparse_donor();
  const auto newcomer = newcomer_from(donor, NewcomerStarts::kWithDonor);
  for (const auto& [name, buffer] : donor.buffers) {
    EXPECT_TRUE(at::equal(buffer_of(newcomer, name), buffer)) << name;
  }
}

TEST(Newcomer, OfLowbitHasTheCommonModelAndNothingOfItsDonor) {
  const WeightsAndBuffers donor = {.weights = all(7),
                                   .buffers = {{"momentum", all(1)},
                                               {kCommonBuffer, all(6)},
                                               {kFlightBuffer, all(2)},
                                               {kPendingBuffer, all(3)},
                                               {kMomentumBuffer, all(4)},
                                               {kResidualBuffer, all(5)}}};
  for (const auto starts : {NewcomerStarts::kWithDonor, NewcomerStarts::kAsFollower}) {
    const auto newcomer = newcomer_from(donor, starts);
    EXPECT_TRUE(holds(newcomer.weights, 6));
    EXPECT_TRUE(holds(buffer_of(newcomer, kCommonBuffer), 6));
    EXPECT_TRUE(holds(buffer_of(newcomer, kFlightBuffer), 0));
    EXPECT_TRUE(holds(buffer_of(newcomer, kPendingBuffer), 0));
    EXPECT_TRUE(holds(buffer_of(newcomer, kMomentumBuffer), 4));
    EXPECT_TRUE(holds(buffer_of(newcomer, kResidualBuffer), 0));
    EXPECT_TRUE(holds(buffer_of(newcomer, "momentum"), 1));
  }
  EXPECT_TRUE(holds(donor.weights, 7));
  EXPECT_TRUE(holds(buffer_of(donor, kFlightBuffer), 2));
}

TEST(Newcomer, OfMethodsWithoutBuffersIsItsDonor) {
  const WeightsAndBuffers donor = {.weights = all(7), .buffers = {{"momentum", all(1)}}};
  const auto newcomer = newcomer_from(donor, NewcomerStarts::kAsFollower);
  EXPECT_TRUE(holds(newcomer.weights, 7));
  ASSERT_EQ(newcomer.buffers.size(), 1U);
  EXPECT_TRUE(holds(newcomer.buffers.front().second, 1));
}

TEST(AveragingBuffers, AreThoseThatTheRunNeedsNow) {
  const std::vector<std::string> none;
  const auto alone = with_averaging_buffers(sparse_donor(), none);
  ASSERT_EQ(alone.buffers.size(), 1U);
  EXPECT_EQ(alone.buffers.front().first, "momentum");

  const std::vector<std::string> names = {kEmaBuffer, kAnchorBuffer, kOuterBuffer};
  const auto again = with_averaging_buffers(alone, names);
  EXPECT_TRUE(holds(buffer_of(again, kEmaBuffer), 0));
  EXPECT_TRUE(holds(buffer_of(again, kAnchorBuffer), 7));
  EXPECT_TRUE(holds(buffer_of(again, kOuterBuffer), 0));
  EXPECT_TRUE(holds(buffer_of(with_averaging_buffers(sparse_donor(), names), kAnchorBuffer), 3));
}

}  // namespace
}  // namespace leeway
