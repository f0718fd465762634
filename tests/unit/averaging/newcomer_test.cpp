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

TEST(Newcomer, OfLowbitHasNothingThatItsDonorWillSend) {
  const WeightsAndBuffers donor = {.weights = all(7),
                                   .buffers = {{"momentum", all(1)},
                                               {kUnsentBuffer, all(2)},
                                               {kPendingBuffer, all(3)},
                                               {kMomentumBuffer, all(4)},
                                               {kResidualBuffer, all(5)}}};
  for (const auto starts : {NewcomerStarts::kWithDonor, NewcomerStarts::kAsFollower}) {
    const auto newcomer = newcomer_from(donor, starts);
    EXPECT_TRUE(holds(newcomer.weights, 5));
    EXPECT_TRUE(holds(buffer_of(newcomer, kUnsentBuffer), 0));
    EXPECT_TRUE(holds(buffer_of(newcomer, kPendingBuffer), 3));
    EXPECT_TRUE(holds(buffer_of(newcomer, kMomentumBuffer), 4));
    EXPECT_TRUE(holds(buffer_of(newcomer, kResidualBuffer), 0));
    EXPECT_TRUE(holds(buffer_of(newcomer, "momentum"), 1));
  }
  EXPECT_TRUE(holds(donor.weights, 7));
  EXPECT_TRUE(holds(buffer_of(donor, kUnsentBuffer), 2));
}

TEST(Newcomer, OfMethodsWithoutBuffersIsItsDonor) {
  const WeightsAndBuffers donor = {.weights = all(7), .buffers = {{"momentum", all(1)}}};
  const auto newcomer = newcomer_from(donor, NewcomerStarts::kAsFollower);
  EXPECT_TRUE(holds(newcomer.weights, 7));
  ASSERT_EQ(newcomer.buffers.size(), 1U);
  EXPECT_TRUE(holds(newcomer.buffers.front().second, 1));
}

// What the donor had not sent reaches the newcomer once, by the answer that the donor's steps are
// in; a plain copy of the weights would have it twice.
TEST(Newcomer, OfLowbitEndsWhereItsDonorDoes) {
  const LowbitOptions options = {.wire = WireFormat::kF32};
  const Subset everything = {.granularity = 4, .parameters = 4, .begins = {0}};
  WeightsAndBuffers donor = {.weights = all(7), .buffers = {{kUnsentBuffer, all(2)}}};
  WeightsAndBuffers newcomer = newcomer_from(donor, NewcomerStarts::kWithDonor);
  std::vector<WeightsAndBuffers*> both = {&donor, &newcomer};
  std::vector<LowbitBuffers> buffers;
  std::vector<at::Tensor> sent;
  for (WeightsAndBuffers* const worker : both) {
    buffers.push_back(make_lowbit_buffers(options, worker->weights));
    buffers.back().unsent.copy_(buffer_of(*worker, kUnsentBuffer));
    sent.push_back(contribute_steps(options, everything, {}, buffers.back()));
  }
  const at::Tensor answer = reduce_steps(options, everything, sent, {}, buffers[0]);
  for (size_t r = 0; r < both.size(); ++r) {
    merge_steps(
        options,
        {.subset = everything, .answer = answer, .sent = sent[r], .weights = both[r]->weights},
        buffers[r]);
  }
  EXPECT_TRUE(at::equal(donor.weights, newcomer.weights)) << donor.weights << newcomer.weights;
  EXPECT_TRUE(holds(donor.weights, 6));
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
