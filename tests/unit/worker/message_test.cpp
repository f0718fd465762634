#include "worker/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
                     .lane = Lane::kEvaluation,
                     .chunk = 7,
                     .replicas = {},
                     .update_time = {4'500'000'000},
                     .stretch = 3};
  for (const int64_t replica : {0, 63, 64, 255}) message.replicas.add({replica});
  return message;
}

// One of each kind, with something in every field.
std::vector<Report> reports() {
  const WorkerId worker = {{1}, {2}};
  WorkTally tally;
  int64_t next = 1;
  each_number(tally, [&next]<class Number>(Number& number) {
    if constexpr (std::is_arithmetic_v<Number>) number = static_cast<Number>(next++);
  });
  tally.bytes = {21, 22, 23, 24};
  tally.begin = {25};
  tally.contributors = {3, 0, 9};
  const StageUpdate update = {.worker = worker,
                              .update = 4,
                              .squared_norm = 0.5,
                              .total_squared_norm = 0.75,
                              .rate_factor = 0.25,
                              .loss = 2.5};
  const ShardSaved saved = {.worker = worker,
                            .update = 4,
                            .checkpoint = 5,
                            .last = true,
                            .rounds = {7, 8},
                            .bytes = {1, 2, 3, 4},
                            .file = "a.safetensors",
                            .size = 99,
                            .hash = 0xFEDCBA9876543210,
                            .error = "no room",
                            .again = true,
                            .replaced = true};
  return {UpdateDone{.update = 4, .stage = update, .tally = tally},
          StageEvaluation{.worker = worker, .update = 4, .loss = 1.5, .windows = 6},
          saved,
          FlushNamed{.ends = true, .update = 9, .for_all = false},
          Finished{.epoch = 5,
                   .updates = 9,
                   .parameters = 100,
                   .versions_peak = 3,
                   .version_bytes = 400,
                   .rounds = {1, 2, 3, 4},
                   .tally = tally},
          Present{.updates = 9,
                  .begun = 11,
                  .joins = true,
                  .loaded = true,
                  .done = true,
                  .table = Membership(3).without({1}, 4).with({1}, {.epoch = 5, .update = 9},
                                                              {{{{1}, {0}}, 2}}),
                  .ends = 9,
                  .tally = tally}};
}

Message with_report(Report report) {
  Message message = {
      .kind = MessageKind::kReport, .from = {{1}, {2}}, .to = kCoordinator, .index = 3};
  message.report = std::make_shared<const Report>(std::move(report));
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
  for (const Lane lane : {Lane::kMain, Lane::kEvaluation}) {
    Message bare = {.kind = MessageKind::kContribution,
                    .from = {{2}, {1}},
                    .to = {{0}, {1}},
                    .index = 3,
                    .lane = lane,
                    .chunk = 1};
    expect_same(bare, *from_bytes(to_bytes(bare)));
  }
}

// Reports have no comparison of their own: equal bytes say the same, and the order of fields when
// they are written is not that when they are read.
TEST(Message, ReportsSurviveARoundTrip) {
  for (const Report& report : reports()) {
    const std::vector<std::byte> bytes = to_bytes(with_report(report));
    const auto back = from_bytes(bytes);
    ASSERT_TRUE(back.ok()) << report.index() << ": " << back.error().message;
    ASSERT_NE(back->report, nullptr);
    EXPECT_EQ(back->report->index(), report.index());
    EXPECT_EQ(to_bytes(*back), bytes) << report.index();
  }
  const auto done = from_bytes(to_bytes(with_report(reports().front())));
  const WorkTally* const tally = tally_in(*done->report);
  ASSERT_NE(tally, nullptr);
  EXPECT_EQ(tally->bytes, (PurposeBytes{21, 22, 23, 24}));
  EXPECT_EQ(tally->begin, Nanos{25});
  EXPECT_EQ(tally->contributors, (std::vector<int64_t>{3, 0, 9}));
  EXPECT_GT(tally->scale, 0);
}

TEST(Message, AReportThatClaimsTooMuchIsRefused) {
  WorkTally wide;
  wide.contributors.assign(ReplicaSet::kReplicasMax + 1, 1);
  WorkTally negative;
  negative.contributors = {-1};
  WorkTally backwards;
  backwards.merges = -2;
  for (const WorkTally& tally : {wide, negative, backwards}) {
    EXPECT_FALSE(from_bytes(to_bytes(with_report(UpdateDone{.tally = tally}))).ok());
  }
}

TEST(Message, AClockCannotBeMovedToTheEndOfTime) {
  Message message = activation();
  message.envelope.tick = int64_t{1} << 40;
  EXPECT_TRUE(from_bytes(to_bytes(message)).ok());
  message.envelope.tick = INT64_MAX;
  EXPECT_FALSE(from_bytes(to_bytes(message)).ok());
}

TEST(Message, ATensorThatIsAViewArrivesWhole) {
  Message message = activation();
  message.payload = at::arange(24, at::kFloat).view({4, 6}).t();
  message.payload_bytes = 96;
  const auto back = from_bytes(to_bytes(message));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(at::equal(back->payload, message.payload));
}

// Strides are made of all sizes, so the others must make sense where one is zero.
TEST(Message, AnEmptyTensorArrivesUnlessItsShapeIsImpossible) {
  Message message = activation();
  message.payload = at::empty({0, 64, 3}, at::kFloat);
  message.payload_bytes = 0;
  std::vector<std::byte> bytes = to_bytes(message);
  const auto back = from_bytes(bytes);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->payload.sizes(), message.payload.sizes());
  const std::array<int64_t, 3> shape = {0, 64, 3};
  const auto wire = std::as_bytes(std::span(shape));
  const auto at = std::ranges::search(bytes, wire);
  ASSERT_FALSE(at.empty());
  const std::array<int64_t, 3> impossible = {0, int64_t{1} << 62, int64_t{1} << 62};
  std::ranges::copy(std::as_bytes(std::span(impossible)), at.begin());
  EXPECT_FALSE(from_bytes(bytes).ok());
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
  std::vector<Message> messages = {activation(), answer()};
  for (const Report& report : reports()) messages.push_back(with_report(report));
  for (const Message& message : messages) {
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
