// Who takes part: a numbered table. It travels in messages, and whoever decides by "all replicas"
// decides by the table it has: owners of chunks, closing of a round, evaluation, the recorder,
// checkpoints. The coordinator makes the next table; a worker adopts it between two pieces of work.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/ids.h"
#include "base/replica_set.h"

namespace leeway {

class Membership {
 public:
  // A replica that has come back; one that was there from the start has zeros.
  struct Restart {
    int64_t epoch = 0;  // number of the table that brought it back: what was sent before is dropped
    int64_t update = 0;  // it goes on after this one
    bool operator==(const Restart&) const = default;
  };
  using Restarts = std::map<ReplicaId, Restart>;
  using Incarnations = std::map<WorkerId, int64_t>;

  Membership() = default;
  // The table that a session begins with: number 0, all replicas.
  explicit Membership(int64_t replicas) : members_(ReplicaSet::first(replicas)) {}
  // A table as it came in a message or from a log.
  Membership(int64_t number, const ReplicaSet& members, Restarts restarts = {},
             Incarnations incarnations = {})
      : number_(number),
        members_(members),
        restarts_(std::move(restarts)),
        incarnations_(std::move(incarnations)) {}

  int64_t number() const { return number_; }
  const ReplicaSet& members() const { return members_; }
  bool has(ReplicaId replica) const { return members_.contains(replica); }
  // How often this place was filled again.
  int64_t incarnation(WorkerId worker) const {
    const auto found = incarnations_.find(worker);
    return found == incarnations_.end() ? 0 : found->second;
  }
  Restart restart(ReplicaId replica) const {
    const auto found = restarts_.find(replica);
    return found == restarts_.end() ? Restart() : found->second;
  }
  int64_t epoch(ReplicaId replica) const { return restart(replica).epoch; }
  const Restarts& restarts() const { return restarts_; }
  const Incarnations& incarnations() const { return incarnations_; }

  // The member that has been there longest: it evaluates, and gives its state to who comes back. It
  // changes only when that one leaves. There must be a member.
  ReplicaId senior() const {
    ReplicaId senior = members_.member(0);
    if (restarts_.empty()) return senior;
    for (const ReplicaId replica : members_) {
      if (epoch(replica) < epoch(senior)) senior = replica;
    }
    return senior;
  }
  // Those that were to make this update.
  ReplicaSet members_at(int64_t update) const {
    ReplicaSet there = members_;
    for (const auto& [replica, restart] : restarts_) {
      if (restart.update >= update) there.remove(replica);
    }
    return there;
  }

  // The next tables, with a number above this one's: without a replica, and with one that goes on
  // after `update`, with these workers in its places.
  Membership without(ReplicaId replica, int64_t number) const {
    Membership next = *this;
    next.number_ = number;
    next.members_.remove(replica);
    return next;
  }
  Membership with(ReplicaId replica, const Restart& restart,
                  const Incarnations& incarnations) const {
    Membership next = *this;
    next.number_ = restart.epoch;
    next.members_.add(replica);
    next.restarts_[replica] = restart;
    for (const auto& [worker, incarnation] : incarnations) {
      if (incarnation > 0) next.incarnations_[worker] = incarnation;
    }
    return next;
  }
  // What a worker goes by that is to fill a place: everybody else is there.
  static Membership before_joining(int64_t replicas, ReplicaId own) {
    Membership table(replicas);
    table.members_.remove(own);
    return table;
  }

  bool operator==(const Membership&) const = default;

 private:
  int64_t number_ = 0;
  ReplicaSet members_;
  Restarts restarts_;
  Incarnations incarnations_;  // of places that were filled again
};

// The coordinator's address: no worker has it.
inline constexpr WorkerId kCoordinator = {.replica = {-1}, .stage = {-1}};

}  // namespace leeway
