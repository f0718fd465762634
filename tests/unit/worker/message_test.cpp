#include "worker/message.h"

#include <gtest/gtest.h>

#include <cstring>

namespace leeway {
namespace {

Message activation() {
  return {.kind = MessageKind::kActivation,
          .from = {{1}, {2}},
          .to = {{1}, {3}},
          .index = 17,
          .update = 4,
          .payload = at::arange(12, at::kFloat).view({1, 3, 4}),
          .payload_bytes = 48};
}

Message answer() {
  Message message = {.kind = MessageKind::kAnswer,
                     .from = {{3}, {1}},
                     .to = {{0}, {1}},
                     .index = 900,
                     .update = 31,
                     .payload = at::arange(5, at::kByte),
                     .payload_bytes = 5,
                     .lane = Lane::kRepair,
                     .chunk = 7,
                     .replicas = {},
                     .update_time = {4'500'000'000},
                     .stretch = 3};
  for (const int64_t replica : {0, 63, 64, 255}) message.replicas.add({replica});
  return message;
}

void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.to, b.to);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.update, b.update);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.lane, b.lane);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.replicas, b.replicas);
  EXPECT_EQ(a.update_time, b.update_time);
  EXPECT_EQ(a.stretch, b.stretch);
  ASSERT_EQ(a.payload.defined(), b.payload.defined());
  if (!a.payload.defined()) return;
  EXPECT_EQ(a.payload.sizes(), b.payload.sizes());
  EXPECT_EQ(a.payload.scalar_type(), b.payload.scalar_type());
  EXPECT_TRUE(at::equal(a.payload, b.payload));
}

TEST(Message, SurvivesARoundTrip) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    Message message = activation();
    message.payload = message.payload.to(type);
    message.payload_bytes = static_cast<int64_t>(message.payload.nbytes());
    const auto back = from_bytes(to_bytes(message));
    ASSERT_TRUE(back.ok());
    expect_same(message, *back);
  }
  Message bare = {.kind = MessageKind::kFlushAt, .from = {{0}, {0}}, .to = {{0}, {1}}, .index = 9};
  expect_same(bare, *from_bytes(to_bytes(bare)));
  Message scalar = activation();
  scalar.payload = at::scalar_tensor(2.5, at::kDouble);
  scalar.payload_bytes = 8;
  expect_same(scalar, *from_bytes(to_bytes(scalar)));
}

TEST(Message, RoundFieldsSurviveARoundTrip) {
  expect_same(answer(), *from_bytes(to_bytes(answer())));
  for (const Lane lane : {Lane::kMain, Lane::kRepair, Lane::kEvaluation}) {
    Message bare = {.kind = MessageKind::kContribution,
                    .from = {{2}, {1}},
                    .to = {{0}, {1}},
                    .index = 3,
                    .lane = lane,
                    .chunk = 1};
    expect_same(bare, *from_bytes(to_bytes(bare)));
  }
}

TEST(Message, ATensorThatIsAViewArrivesWhole) {
  Message message = activation();
  message.payload = at::arange(24, at::kFloat).view({4, 6}).t();
  message.payload_bytes = 96;
  const auto back = from_bytes(to_bytes(message));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(at::equal(back->payload, message.payload));
}

TEST(Message, EveryTruncationIsRefusedWithAMessage) {
  const std::vector<std::byte> whole = to_bytes(activation());
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto result = from_bytes(std::span(whole).first(length));
    ASSERT_FALSE(result.ok()) << length;
    EXPECT_FALSE(result.error().message.empty());
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(from_bytes(longer).ok());
}

// Whatever one byte becomes, the result is a message or an error; never a crash, never a tensor
// larger than what was sent.
TEST(Message, ADamagedByteNeverCrashes) {
  for (const Message& message : {activation(), answer()}) {
    const std::vector<std::byte> whole = to_bytes(message);
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
        std::vector<std::byte> damaged = whole;
        damaged[at] = static_cast<std::byte>(value);
        const auto result = from_bytes(damaged);
        if (!result.ok()) continue;
        EXPECT_GE(result->chunk, 0);
        EXPECT_GE(result->update_time.count, 0);
        EXPECT_GE(result->stretch, 0);
        EXPECT_LT(static_cast<int>(result->lane), kLanes);
        EXPECT_LT(static_cast<int>(result->kind), kMessageKinds);
        if (!result->payload.defined()) continue;
        EXPECT_LE(result->payload.nbytes(), whole.size());
      }
    }
  }
}

}  // namespace
}  // namespace leeway
