// Who averages which chunk, and how many chunks there are.
#include "worker/lane.h"

#include <gtest/gtest.h>

#include <map>

namespace leeway {
namespace {

LanePlan plan_of(int64_t replicas, bool common) {
  LanePlan plan = {.replicas = replicas};
  plan.common = common;
  plan.sizes = {{.cut = {.parameters = 1 << 30}, .chunks = replicas}};
  return plan;
}

Membership without(int64_t replicas, const std::vector<int64_t>& gone) {
  Membership table(replicas);
  for (const int64_t replica : gone) table = table.without({replica}, table.number() + 1);
  return table;
}

std::vector<int64_t> owners(const LanePlan& plan, int64_t round, const Membership& table) {
  std::vector<int64_t> owners;
  for (int64_t chunk = 0; chunk < plan.chunks({0}); ++chunk) {
    owners.push_back(plan.owner(round, chunk, table).value);
  }
  return owners;
}

TEST(ChunkCount, IsOnePerReplicaWhileChunksStayLarge) {
  constexpr int64_t kLarge = 64 * kChunkBytesMin;
  for (const int64_t replicas : {2, 8, 9, 16, 63, 64}) {
    EXPECT_EQ(chunk_count(replicas, kLarge), replicas);
  }
  EXPECT_EQ(chunk_count(65, kLarge), 64);
  EXPECT_EQ(chunk_count(64, kLarge - 1), 63);
  EXPECT_EQ(chunk_count(64, 20 * kChunkBytesMin), 20);
}

TEST(ChunkCount, OfSmallModelsIsEight) {
  EXPECT_EQ(chunk_count(2, 0), 2);
  EXPECT_EQ(chunk_count(8, 100), 8);
  EXPECT_EQ(chunk_count(64, 100), 8);
}

TEST(LanePlan, CountsTheChunksOfEachStage) {
  LanePlan plan = {.replicas = 32};
  EXPECT_EQ(plan.chunks({1}), 8) << "nothing is known of their size";
  plan.sizes = {{.cut = {}, .chunks = 32}, {.cut = {}, .chunks = 11}};
  EXPECT_EQ(plan.chunks({0}), 32);
  EXPECT_EQ(plan.chunks({1}), 11);
  plan.lane = Lane::kEvaluation;
  EXPECT_EQ(plan.chunks({0}), 1);
}

TEST(LanePlan, AChunkOfACommonModelIsAtHome) {
  const LanePlan plan = plan_of(16, /*common=*/true);
  for (const int64_t round : {0, 1, 17}) {
    const std::vector<int64_t> all = owners(plan, round, Membership(16));
    for (int64_t chunk = 0; chunk < 16; ++chunk) EXPECT_EQ(all[static_cast<size_t>(chunk)], chunk);
  }
}

TEST(LanePlan, ALossMovesOnlyTheChunkOfTheLostAndAReturnOnlyThatOneBack) {
  const LanePlan plan = plan_of(16, /*common=*/true);
  const std::vector<int64_t> before = owners(plan, 0, Membership(16));
  for (int64_t lost = 0; lost < 16; ++lost) {
    const Membership table = without(16, {lost});
    const std::vector<int64_t> after = owners(plan, 0, table);
    for (int64_t chunk = 0; chunk < 16; ++chunk) {
      const auto at = static_cast<size_t>(chunk);
      EXPECT_TRUE(table.has({after[at]}));
      EXPECT_EQ(after[at] == before[at], chunk != lost);
    }
    EXPECT_EQ(owners(plan, 0, table.with({lost}, {.epoch = 2, .update = 7}, {})), before);
  }
}

TEST(LanePlan, TheChunksOfManyLostAreSpread) {
  const LanePlan plan = plan_of(64, /*common=*/true);
  std::vector<int64_t> gone;
  for (int64_t replica = 32; replica < 64; ++replica) gone.push_back(replica);
  std::map<int64_t, int64_t> counts;
  for (const int64_t owner : owners(plan, 0, without(64, gone))) ++counts[owner];
  ASSERT_EQ(counts.size(), 32u);
  for (const auto& [owner, count] : counts) EXPECT_EQ(count, 2) << owner;
}

TEST(LanePlan, OtherLanesRotateAmongTheMembers) {
  const LanePlan plan = plan_of(4, /*common=*/false);
  EXPECT_EQ(owners(plan, 0, Membership(4)), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(owners(plan, 1, Membership(4)), (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(owners(plan, 1, without(4, {0})), (std::vector<int64_t>{2, 3, 1, 2}));
}

}  // namespace
}  // namespace leeway
