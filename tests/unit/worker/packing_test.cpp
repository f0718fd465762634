#include "worker/packing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "averaging/wire.h"

namespace leeway {
namespace {

constexpr int64_t kParameters = 20'000;
constexpr int64_t kChunks = 2;

RunPlan plan_of(WireFormat wire) {
  RunPlan plan;
  plan.lanes = {{.lane = Lane::kMain, .replicas = 2, .common = true}};
  plan.lanes[0].sizes = {
      {.cut = {.parameters = kParameters}, .wire = wire, .type = at::kFloat, .chunks = kChunks}};
  return plan;
}

at::Tensor blocks_of_a_chunk() {
  const int64_t count = Cut({.parameters = kParameters}).count(0, 1, kChunks);
  return encode(WireFormat::kTernary, at::randn({count}), {}, 1.6);
}

Message message_with(const at::Tensor& payload) {
  return {.kind = MessageKind::kAnswer,
          .from = {},
          .to = {.replica = {1}, .stage = {0}},
          .payload = payload,
          .payload_bytes = static_cast<int64_t>(payload.nbytes()),
          .lane = Lane::kMain,
          .chunk = 1};
}

at::Tensor unpacked(const RunPlan& plan, Message message) {
  unpack_from_others(plan, message);
  EXPECT_EQ(message.payload_bytes, static_cast<int64_t>(message.payload.nbytes()));
  return message.payload;
}

TEST(Packing, AWorkerOnAGpuGetsBlocks) {
  const RunPlan plan = plan_of(WireFormat::kTernary);
  const at::Tensor blocks = blocks_of_a_chunk();
  const int64_t count = Cut({.parameters = kParameters}).count(0, 1, kChunks);
  const at::Tensor packed = pack(WireFormat::kTernary, blocks, count);
  ASSERT_LT(packed.numel(), blocks.numel() / 2);
  EXPECT_TRUE(at::equal(unpacked(plan, message_with(packed)), blocks));
  EXPECT_TRUE(at::equal(unpacked(plan, message_with(blocks)), blocks)) << "from another GPU";
}

TEST(Packing, WhatIsNoCodeStaysAsItIs) {
  const RunPlan plan = plan_of(WireFormat::kTernary);
  const at::Tensor packed = pack(WireFormat::kTernary, blocks_of_a_chunk(),
                                 Cut({.parameters = kParameters}).count(0, 1, kChunks));
  const auto stays = [&](const RunPlan& of, const Message& message) {
    return at::equal(unpacked(of, message), message.payload);
  };
  EXPECT_TRUE(stays(plan, message_with(at::randn({5})))) << "the last ones of a run are exact";
  Message other = message_with(packed);
  other.kind = MessageKind::kActivation;
  EXPECT_TRUE(stays(plan, other));
  other = message_with(packed);
  other.chunk = kChunks;
  EXPECT_TRUE(stays(plan, other));
  other.chunk = -1;
  EXPECT_TRUE(stays(plan, other));
  other = message_with(packed);
  other.to.stage = {1};
  EXPECT_TRUE(stays(plan, other));
  other = message_with(packed);
  other.whole = true;
  EXPECT_TRUE(stays(plan, other));
}

// A worker on a GPU would have to wait to see what is in it.
TEST(Packing, AWorkerOnAGpuGetsNothingThatNobodyCanHaveSent) {
  const RunPlan plan = plan_of(WireFormat::kTernary);
  const at::Tensor blocks = blocks_of_a_chunk();
  const at::Tensor packed =
      pack(WireFormat::kTernary, blocks, Cut({.parameters = kParameters}).count(0, 1, kChunks));
  EXPECT_EQ(unpacked(plan, message_with(packed.slice(0, 0, packed.numel() - 1).clone())).numel(),
            0);
  const at::Tensor wrong = at::full_like(blocks, 250);  // no five digits make that byte
  EXPECT_EQ(unpacked(plan, message_with(wrong)).numel(), 0);
  EXPECT_EQ(unpacked(plan_of(WireFormat::kInt8), message_with(packed)).numel(), 0);
}

TEST(Packing, AWorkerOnTheCpuHasPackedItself) {
  const RunPlan plan = plan_of(WireFormat::kTernary);
  Message message = message_with(blocks_of_a_chunk());
  const at::Tensor before = message.payload;
  Packer(plan).pack_for_others(message);
  EXPECT_TRUE(message.payload.is_same(before));
}

}  // namespace
}  // namespace leeway
