#include "worker/chunk_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common_testing.h"

namespace leeway {
namespace {

using testing::IsEmpty;

Message of_bytes(int64_t number, int64_t bytes) {
  Message message = answer(number, {});
  message.payload_bytes = bytes;
  return message;
}

TEST(ChunkLog, AppliesInOrderAndKnowsAGap) {
  ChunkLog log;
  log.deliver(answer(2, {}));
  EXPECT_EQ(log.next(), nullptr);
  EXPECT_TRUE(log.has_gap());
  log.deliver(answer(1, {}));
  log.deliver(answer(1, {{{0}, 9}}));
  EXPECT_FALSE(log.has_gap());
  EXPECT_EQ(log.received(), 2);
  EXPECT_THAT(log.next()->parts, IsEmpty()) << "the first one counts";
  log.apply(*log.next());
  EXPECT_EQ(log.next()->index, 2);
}

TEST(ChunkLog, KeepsTheLast64AndIsBounded) {
  ChunkLog log;
  for (int64_t number = 1; number <= 1000; ++number) log.deliver(answer(number, {}));
  EXPECT_EQ(log.received(), ChunkLog::Limits().waiting);
  for (int64_t number = 1; number <= 100; ++number) log.apply(*log.next());
  EXPECT_EQ(log.find(36), nullptr);
  EXPECT_NE(log.find(37), nullptr);
}

TEST(ChunkLog, KeepsWhatIsLessToSendThanTheChunk) {
  EXPECT_EQ(ChunkLog::worth_keeping(4000, 209, {}), 4000);
  EXPECT_EQ(ChunkLog::worth_keeping(4000, 4000, {}), 4 * 4000) << "a few at least";
  EXPECT_EQ(ChunkLog::worth_keeping(4000, 209, 1), 4000);
  EXPECT_EQ(ChunkLog::worth_keeping(4000, 209, 10), 22 * 209);
  EXPECT_EQ(ChunkLog::worth_keeping(4e9, 1, 500), ChunkLog::kKept);
  ChunkLog log({}, {.kept_bytes = 100});
  for (int64_t number = 1; number <= 9; ++number) log.deliver(of_bytes(number, 20));
  EXPECT_EQ(log.received(), 9) << "those that wait are not meant";
  while (log.next() != nullptr) log.apply(*log.next());
  EXPECT_EQ(log.find(4), nullptr);
  EXPECT_NE(log.find(5), nullptr);
  log.deliver(of_bytes(10, 100));  // exact ones come at the end of a run
  log.apply(*log.next());
  EXPECT_EQ(log.find(9), nullptr);
  EXPECT_NE(log.find(10), nullptr);
}

TEST(ChunkLog, IsBoundedInBytes) {
  ChunkLog log({}, {.bytes = 100});
  for (int64_t number = 1; number <= 9; ++number) {
    if (number != 4) log.deliver(of_bytes(number, 20));
  }
  EXPECT_FALSE(log.has_room()) << "three wait, and two after a gap";
  EXPECT_TRUE(log.has_gap());
  log.deliver(of_bytes(4, 20));
  EXPECT_EQ(log.received(), 5) << "the next one takes the place of a later one";
  EXPECT_TRUE(log.has_gap()) << "it has heard of more";
  while (log.next() != nullptr) log.apply(*log.next());
  EXPECT_TRUE(log.has_room());
  EXPECT_EQ(log.kept(), 5);
  log.deliver(of_bytes(6, 60));
  EXPECT_EQ(log.find(3), nullptr) << "old ones make room";
  EXPECT_NE(log.find(4), nullptr);
}

TEST(ChunkLog, IsMendedWithWhatIsNotKept) {
  ChunkLog log({}, {.bytes = 10});
  for (int64_t n = 1; n <= 5; ++n) {
    Message large = answer(n, {});
    large.payload_bytes = 10;
    log.deliver(large);
    log.apply(*log.next(), /*hash=*/7);
  }
  ASSERT_EQ(log.find(4), nullptr);
  Message whole = answer(3, {});
  whole.whole = whole.mends = true;
  log.deliver(whole);
  ASSERT_EQ(log.next()->index, 3);
  log.apply(*log.next());
  EXPECT_EQ(log.next(), nullptr);
  EXPECT_EQ(log.received(), 3);
  EXPECT_TRUE(log.has_gap());
}

TEST(ChunkLog, OfAReplayKeepsAllAndTakesWhatTheRunTook) {
  ChunkLog log({}, {.waiting = 1, .bytes = 1, .keeps_all = true});
  for (int64_t n = 1; n <= 9; ++n) log.deliver(answer(n, {}));
  for (const int64_t n : {4, 7}) {
    Message whole = answer(n, {});
    whole.whole = true;
    log.deliver(whole);
  }
  EXPECT_EQ(log.received(), 9);
  EXPECT_EQ(log.next(4, /*whole=*/false), nullptr) << "it is not the next one";
  ASSERT_NE(log.next(4, /*whole=*/true), nullptr);
  log.apply(*log.next(4, true));
  ASSERT_NE(log.next(5, false), nullptr);
  log.apply(*log.next(5, false));
  ASSERT_NE(log.next(7, true), nullptr);
}

TEST(ChunkLog, IsCutWhereTheNewOwnerGoesOn) {
  ChunkLog log;
  log.deliver(answer(1, {}));
  log.deliver(answer(2, {{{0}, 1}}));
  log.deliver(answer(4, {}));
  log.cut(1);
  EXPECT_EQ(log.received(), 1);
  EXPECT_FALSE(log.has_gap());
  log.deliver(answer(2, {{{1}, 1}}));
  EXPECT_EQ(log.find(2)->parts.front().replica, ReplicaId{1});
}

TEST(ChunkLog, TheChainTellsWhoHasAppliedTheSame) {
  ChunkLog one, same, other, payload;
  for (ChunkLog* log : {&one, &same, &other, &payload}) {
    log->deliver(answer(1, {{{log == &other ? 1 : 0}, 1}}));
    log->deliver(answer(2, {}));
    log->apply(*log->next(), log == &payload ? 7 : 0);
    log->apply(*log->next());
  }
  EXPECT_EQ(one.position().chain, same.position().chain);
  EXPECT_EQ(one.chain_at(1), same.chain_at(1));
  EXPECT_NE(one.position().chain, other.position().chain);
  EXPECT_NE(one.position().chain, payload.position().chain);
  EXPECT_FALSE(one.chain_at(3));
}

TEST(ChunkLog, IsMended) {
  ChunkLog good, bad;
  for (ChunkLog* log : {&good, &bad}) {
    for (int64_t n = 1; n <= 5; ++n) log->deliver(answer(n, {}));
    log->apply(*log->next(), log == &bad ? 1 : 0);
    log->apply(*log->next());
  }
  Message whole = answer(2, {});
  whole.whole = whole.mends = true;
  whole.chain = good.position().chain;
  while (bad.next() != nullptr) bad.apply(*bad.next());
  while (good.next() != nullptr) good.apply(*good.next());
  good.deliver(whole);
  EXPECT_EQ(good.next(), nullptr) << "it has that already";
  bad.deliver(whole);
  ASSERT_NE(bad.next(), nullptr);
  while (bad.next() != nullptr) bad.apply(*bad.next());
  EXPECT_EQ(bad.applied(), 5);
  EXPECT_EQ(bad.position().chain, good.position().chain);
}

}  // namespace
}  // namespace leeway
