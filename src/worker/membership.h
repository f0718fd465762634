// Who takes part: a numbered table. It travels in messages, and whoever decides by "all replicas"
// decides by the table it has: owners of chunks, closing of a round, evaluation, the recorder,
// checkpoints. The coordinator makes the next table; a worker adopts it between two pieces of work.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/replica_set.h"

namespace leeway {

class Membership {
 public:
  Membership() = default;
  // The table that a session begins with: number 0, all replicas.
  explicit Membership(int64_t replicas) : members_(ReplicaSet::first(replicas)) {}
  // A table as it came in a message or from a log.
  Membership(int64_t number, const ReplicaSet& members) : number_(number), members_(members) {}

  int64_t number() const { return number_; }
  const ReplicaSet& members() const { return members_; }
  bool has(ReplicaId replica) const { return members_.contains(replica); }
  // How often a place was filled, and a replica restarted: 0 until recovery counts them.
  int64_t incarnation(WorkerId) const { return 0; }
  int64_t epoch(ReplicaId) const { return 0; }

  // The next table: without this replica.
  Membership without(ReplicaId replica) const {
    Membership next = *this;
    ++next.number_;
    next.members_.remove(replica);
    return next;
  }

  bool operator==(const Membership&) const = default;

 private:
  int64_t number_ = 0;
  ReplicaSet members_;
};

// The coordinator's address: no worker has it.
inline constexpr WorkerId kCoordinator = {.replica = {-1}, .stage = {-1}};

}  // namespace leeway
