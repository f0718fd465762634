// Which shards workers have written, until they belong to a checkpoint: names and numbers only, so
// nothing is held in memory for a replica that never comes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/replica_set.h"
#include "worker/outbox.h"

namespace leeway {

class ShardLedger {
 public:
  // `together`: replicas wait for each other, so that they can only resume from the same update.
  ShardLedger(int64_t stages, const ReplicaSet& members, bool together)
      : stages_(stages), members_(members), together_(together) {}

  // A checkpoint that counts: every stage of at least one replica has saved for it, at one update.
  struct Counting {
    int64_t checkpoint = 0;
    std::vector<ShardSaved> shards;  // of whole replicas, in the order of workers
  };
  // Returns the checkpoint that counts with this shard, or has more replicas with it. A replica
  // that has nothing for a checkpoint, because it was past it or stopped elsewhere, gives what it
  // saved next, unless replicas stay together: then it is missing. A checkpoint
  // that counts closes those before it; only where a session ends may an earlier one follow, if it
  // has all replicas.
  std::optional<Counting> add(const ShardSaved& saved);
  // This one is on disk, from before.
  void know(Counting newest) { newest_ = std::move(newest); }
  // Only these replicas are waited for from now on: what may have all of them with that.
  std::optional<Counting> wait_for(const ReplicaSet& members);
  // Files that no checkpoint will ask for any more, since the last call.
  std::vector<std::string> take_needless();

 private:
  using Set = std::map<WorkerId, ShardSaved>;
  bool has_replica(const Set& set, int64_t replica) const;
  std::optional<Counting> counting(std::map<int64_t, Set>::const_iterator at) const;
  bool has_all(const Counting& found) const;
  std::optional<Counting> count(std::optional<Counting> found);
  void drop(const ShardSaved& saved) { needless_.push_back(saved.file); }

  int64_t stages_;
  ReplicaSet members_;
  bool together_;
  std::map<int64_t, Set> sets_;  // by checkpoint
  Counting newest_ = {.checkpoint = -1, .shards = {}};
  std::vector<std::string> needless_;
};

}  // namespace leeway
