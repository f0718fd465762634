#include "run/shard_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;

ShardSaved shard(int64_t replica, int64_t stage, int64_t update, int64_t checkpoint) {
  return {
      .worker = {{replica}, {stage}},
      .update = update,
      .checkpoint = checkpoint,
      .file = std::to_string(replica) + "-" + std::to_string(stage) + "@" + std::to_string(update)};
}

ShardSaved last(int64_t replica, int64_t update) {
  ShardSaved saved = shard(replica, 0, update, update);
  saved.last = true;
  return saved;
}

// The checkpoint's number, and its files.
using Found = std::optional<std::pair<int64_t, std::vector<std::string>>>;
Found found(const std::optional<ShardLedger::Counting>& counting) {
  if (!counting) return std::nullopt;
  std::vector<std::string> files;
  for (const ShardSaved& saved : counting->shards) files.push_back(saved.file);
  return std::pair(counting->checkpoint, files);
}
auto counts(int64_t checkpoint, const std::vector<std::string>& files) {
  return Optional(Pair(checkpoint, files));
}

TEST(ShardLedger, ACheckpointCountsWithTheFirstWholeReplica) {
  ShardLedger ledger(2, Membership(2).members(), /*together=*/false);
  EXPECT_FALSE(ledger.add(shard(1, 1, 10, 10)));
  EXPECT_FALSE(ledger.add(shard(0, 0, 10, 10)));
  EXPECT_THAT(found(ledger.add(shard(1, 0, 10, 10))), counts(10, {"1-0@10", "1-1@10"}));
  EXPECT_THAT(found(ledger.add(shard(0, 1, 10, 10))),
              counts(10, {"0-0@10", "0-1@10", "1-0@10", "1-1@10"}));
}

// A replica that is not part of the run yet saves, joins, and saves the same update as its last.
TEST(ShardLedger, AFileThatIsSavedAgainIsNotNeedless) {
  ReplicaSet first;
  first.add({0});
  ShardLedger ledger(1, first, /*together=*/false);
  EXPECT_FALSE(ledger.add(last(1, 10)));
  EXPECT_FALSE(ledger.wait_for(Membership(2).members()));
  EXPECT_TRUE(ledger.add(last(1, 10)));
  EXPECT_THAT(ledger.take_needless(), IsEmpty());
}

// As a coordinator that takes a session over finds it.
TEST(ShardLedger, OneThatIsOnDiskIsOnlyReplacedByOneThatHasMore) {
  ShardLedger ledger(1, Membership(3).members(), /*together=*/false);
  ledger.know({.checkpoint = 10, .shards = {shard(0, 0, 10, 10), shard(1, 0, 10, 10)}});
  EXPECT_FALSE(ledger.add(shard(0, 0, 10, 10))) << "said again";
  EXPECT_FALSE(ledger.add(shard(2, 0, 10, 10))) << "replica 1 has not said it again yet";
  EXPECT_THAT(found(ledger.add(shard(1, 0, 10, 10))), counts(10, {"0-0@10", "1-0@10", "2-0@10"}));
  EXPECT_FALSE(ledger.add(shard(0, 0, 5, 5))) << "an older one";
  EXPECT_THAT(found(ledger.add(shard(0, 0, 20, 20))), counts(20, {"0-0@20"}));
}

TEST(ShardLedger, ADuplicateChangesNothing) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/false);
  EXPECT_TRUE(ledger.add(shard(0, 0, 10, 10)));
  EXPECT_FALSE(ledger.add(shard(0, 0, 10, 10)));
  EXPECT_TRUE(ledger.add(shard(1, 0, 10, 10)));
  for (const int64_t replica : {0, 1}) EXPECT_FALSE(ledger.add(shard(replica, 0, 10, 10)));
  EXPECT_THAT(ledger.take_needless(), IsEmpty());
}

TEST(ShardLedger, StagesAtDifferentUpdatesAreNoReplica) {
  ShardLedger ledger(2, Membership(1).members(), /*together=*/false);
  EXPECT_FALSE(ledger.add(shard(0, 0, 10, 10)));
  EXPECT_FALSE(ledger.add(shard(0, 1, 11, 10)));
  EXPECT_THAT(found(ledger.add(shard(0, 1, 10, 10))), counts(10, {"0-0@10", "0-1@10"}));
}

// Replica 1 never comes: its shard of update 10 belongs to nothing once update 20 counts.
TEST(ShardLedger, ACheckpointThatCountsClosesThoseBefore) {
  ShardLedger ledger(2, Membership(2).members(), /*together=*/false);
  EXPECT_FALSE(ledger.add(shard(1, 0, 10, 10)));
  for (const int64_t update : {10, 20}) {
    EXPECT_FALSE(ledger.add(shard(0, 0, update, update)));
    EXPECT_TRUE(ledger.add(shard(0, 1, update, update)));
  }
  EXPECT_THAT(ledger.take_needless(), ElementsAre("0-0@10", "0-1@10", "1-0@10"));
  EXPECT_FALSE(ledger.add(shard(1, 1, 10, 10))) << "too late";
  EXPECT_THAT(ledger.take_needless(), ElementsAre("1-1@10"));
}

TEST(ShardLedger, OutOfOrderTheNewestCounts) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/false);
  EXPECT_THAT(found(ledger.add(shard(0, 0, 20, 20))), counts(20, {"0-0@20"}));
  EXPECT_FALSE(ledger.add(shard(0, 0, 10, 10)));
  EXPECT_FALSE(ledger.add(shard(1, 0, 10, 10)));
  EXPECT_THAT(found(ledger.add(shard(1, 0, 20, 20))), counts(20, {"0-0@20", "1-0@20"}));
}

TEST(ShardLedger, AReplicaThatIsPastARequestSavesForItLater) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/false);
  EXPECT_THAT(found(ledger.add(shard(1, 0, 70, 70))), counts(70, {"1-0@70"}));
  EXPECT_THAT(found(ledger.add(shard(0, 0, 131, 70))), counts(70, {"0-0@131", "1-0@70"}));
}

// It resumed ahead of the others, and has nothing for the checkpoint that it was past.
TEST(ShardLedger, AReplicaThatIsAheadGivesWhatItSavesNext) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/false);
  EXPECT_THAT(found(ledger.add(shard(0, 0, 20, 20))), counts(20, {"0-0@20"}));
  EXPECT_THAT(found(ledger.add(shard(1, 0, 40, 40))), counts(20, {"0-0@20", "1-0@40"}));
  EXPECT_THAT(found(ledger.add(shard(0, 0, 40, 40))), counts(40, {"0-0@40", "1-0@40"}));
}

// With a fixed lag, one at another update would wait forever for rounds that the others have made.
TEST(ShardLedger, ReplicasThatStayTogetherAreSavedAtOneUpdate) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/true);
  EXPECT_THAT(found(ledger.add(shard(0, 0, 20, 20))), counts(20, {"0-0@20"}));
  EXPECT_THAT(found(ledger.add(shard(1, 0, 40, 40))), counts(40, {"1-0@40"}));
  EXPECT_THAT(found(ledger.add(shard(0, 0, 40, 40))), counts(40, {"0-0@40", "1-0@40"}));
}

// A stop: replicas that are ahead have saved on the way, and more after that.
TEST(ShardLedger, AtTheEndOfASessionEachReplicaGivesItsLastState) {
  ShardLedger ledger(1, Membership(3).members(), /*together=*/false);
  EXPECT_TRUE(ledger.add(shard(1, 0, 240, 240)));
  EXPECT_TRUE(ledger.add(shard(2, 0, 240, 240)));
  EXPECT_FALSE(ledger.add(last(0, 239))) << "fewer replicas than the newest";
  EXPECT_THAT(found(ledger.add(last(2, 270))), counts(270, {"2-0@270"}));
  EXPECT_THAT(found(ledger.add(last(1, 242))), counts(239, {"0-0@239", "1-0@242", "2-0@270"}));
}

TEST(ShardLedger, WhoLeavesIsNotWaitedFor) {
  ShardLedger ledger(1, Membership(3).members(), /*together=*/false);
  EXPECT_TRUE(ledger.add(last(1, 66)));
  EXPECT_FALSE(ledger.add(last(0, 65))) << "replica 2 may still come";
  EXPECT_THAT(found(ledger.wait_for(Membership(2).members())), counts(65, {"0-0@65", "1-0@66"}));
  EXPECT_FALSE(ledger.add(last(2, 67)));
  EXPECT_THAT(ledger.take_needless(), ElementsAre("2-0@67"));
}

// What it had saved before stays in the checkpoint.
TEST(ShardLedger, WhoLeavesTakesNothingAway) {
  ShardLedger ledger(1, Membership(2).members(), /*together=*/false);
  EXPECT_TRUE(ledger.add(shard(0, 0, 20, 20)));
  EXPECT_TRUE(ledger.add(shard(1, 0, 20, 20)));
  EXPECT_FALSE(ledger.wait_for(Membership(1).members()));
  EXPECT_THAT(found(ledger.add(shard(0, 0, 40, 40))), counts(40, {"0-0@40"}));
}

}  // namespace
}  // namespace leeway
