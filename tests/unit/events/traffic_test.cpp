#include "events/traffic.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

PurposeBytes bytes_of(WorkKind kind, Lane lane = Lane::kMain) {
  PurposeBytes bytes;
  bytes.add({.worker = {}, .work = {.kind = kind, .lane = lane}, .times = {}, .bytes_sent = 10});
  return bytes;
}

TEST(Traffic, EveryByteHasOnePurpose) {
  for (int kind = 0; kind < kWorkKinds; ++kind) {
    for (int lane = 0; lane < kLanes; ++lane) {
      EXPECT_EQ(bytes_of(static_cast<WorkKind>(kind), static_cast<Lane>(lane)).total(), 10);
    }
  }
}

TEST(Traffic, PurposesFollowTheWorkAndItsLane) {
  EXPECT_EQ(bytes_of(WorkKind::kForward).activations, 10);
  EXPECT_EQ(bytes_of(WorkKind::kBackward).gradients, 10);
  EXPECT_EQ(bytes_of(WorkKind::kContribute).averaging, 10);
  EXPECT_EQ(bytes_of(WorkKind::kTransfer).averaging, 10);
  EXPECT_EQ(bytes_of(WorkKind::kEvaluate).evaluation, 10);
  EXPECT_EQ(bytes_of(WorkKind::kContribute, Lane::kEvaluation).evaluation, 10);
}

}  // namespace
}  // namespace leeway
