// How the coordinator makes tables: replicas leave, and come back.
#include <algorithm>
#include <utility>

#include "worker/coordinator.h"

namespace leeway {

// The others go on; if there are none, the recorder has seen why.
void Coordinator::leave(ReplicaId replica) {
  if (table_.has(replica)) adopt(table_.without(replica, next_number()));
}

// One is lost, or another one is in its place, that the table does not know.
void Coordinator::leave_where_workers_are_missing() {
  for (size_t at = 0; at < seats_.size(); ++at) {
    const WorkerId worker = plan_.mesh().id(at);
    if (seats_[at].lost || seats_[at].incarnation > table_.incarnation(worker)) {
      leave(worker.replica);
    }
  }
}

// Tables are recorded before they are sent: one that an earlier coordinator made, and that nobody
// has heard of, keeps its number.
int64_t Coordinator::next_number() const {
  return std::max(table_.number(), recorder_.newest_table()) + 1;
}

int64_t Coordinator::newest_update() const {
  return std::ranges::max(seats_, {}, &Seat::updates).updates;
}

// All places of a replica that has left are filled, one of them again: a replica that diverged, or
// ended before the others, does not come back by itself.
bool Coordinator::is_back(ReplicaId replica, bool loaded) const {
  bool filled = false;
  for (int64_t stage = 0; stage < plan_.shape.stages; ++stage) {
    const Seat& seat = this->seat({.replica = replica, .stage = {stage}});
    filled = filled || seat.joins;
    const bool ready = seat.joins ? seat.loaded || !loaded : seat.idle_after.has_value();
    if (seat.lost || !ready) return false;
  }
  return filled;
}

// It goes on with the fleet, after the newest update that anybody has made or, in this replica,
// begun. Where replicas must be the same, the session ends for it.
void Coordinator::take_back() {
  if (over_ || end_.wanted || end_.named > 0) return;
  if (table_.members().empty()) {  // nobody has the newest state: all go on from a checkpoint
    const bool all_there = std::ranges::none_of(seats_, &Seat::lost);
    regroup_ = all_there && std::ranges::any_of(seats_, &Seat::joins);
    return;
  }
  for (int64_t r = 0; r < plan_.replicas; ++r) {
    const ReplicaId replica = {r};
    if (table_.has(replica) || !is_back(replica, /*loaded=*/!plan_.regroups())) continue;
    int64_t update = std::max(newest_update(), recorder_.newest_update());
    Membership::Incarnations incarnations;
    for (int64_t stage = 0; stage < plan_.shape.stages; ++stage) {
      const WorkerId worker = {.replica = replica, .stage = {stage}};
      update = std::max(update, seat(worker).idle_after.value_or(0));
      incarnations[worker] = seat(worker).incarnation;
    }
    if (update >= plan_.last_update) continue;  // the run is over by then
    if (plan_.regroups()) {
      regroup_ = end_.wanted = orders_due_ = true;
      return;
    }
    adopt(table_.with(replica, {.epoch = next_number(), .update = update}, incarnations));
    for (int64_t stage = 0; stage < plan_.shape.stages; ++stage) {
      Seat& seat = this->seat({.replica = replica, .stage = {stage}});
      seat.joins = seat.loaded = seat.finished = false;
      seat.idle_after.reset();
      seat.decided_end = 0;
    }
  }
}

// As another coordinator made it: the newest is recorded when its members have spoken.
void Coordinator::learn(const Membership& table) {
  table_ = table;
  orders_due_ = unrecorded_ = roll_due_ = true;
}

void Coordinator::adopt(const Membership& table) {
  table_ = table;
  orders_due_ = true;
  recorder_.members(table_);
}

}  // namespace leeway
