// What becomes of a message between its sender and its receiver.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "drivers/sim/simulation.h"

namespace leeway::sim {

void Simulation::send(Message message) {
  if (message.to == kCoordinator || message.from == kCoordinator) {
    return send_control(std::move(message));
  }
  checker_->sent(message);
  const Nanos arrival =
      links_->send(message.from, message.to, bytes_on_link(message), clock_.now());
  const bool between_replicas = message.from.replica != message.to.replica;
  const bool lost =
      options_.messages.lost > 0 && between_replicas && dice() < options_.messages.lost;
  if (lost || faults_->is_lost(message.from, message.to, clock_.now())) {
    return checker_->lost(message);
  }
  carry(std::move(message), arrival);
}

// The coordinator's messages are few and small: they take no time of their own.
void Simulation::send_control(Message message) {
  checker_->told(message);
  if (options_.messages.lost > 0 && dice() < options_.messages.lost) return;
  carry(std::move(message), clock_.now());
}

void Simulation::carry(Message message, Nanos arrival) {
  const MessageFaults& faults = options_.messages;
  if (faults.class_jitter.count > 0) arrival = in_order(message, arrival);
  if (faults.through_bytes) {
    Result<Message> back = from_bytes(to_bytes(message));
    LEEWAY_CHECK(back.ok(), "what was sent can be read");
    if (back->payload.defined()) back->payload = back->payload.to(message.payload.device());
    message = std::move(*back);
  }
  if (faults.twice > 0 && dice() < faults.twice) {
    const auto after = static_cast<int64_t>(dice() * 1e6);  // up to a millisecond
    agenda_.enter(arrival + Nanos{after}, Happening::kArrivedAgain, messages_.put(message));
  }
  agenda_.enter(arrival, Happening::kArrived, messages_.put(std::move(message)));
}

// Later by a random time, but never before an earlier message of its class on its link.
Nanos Simulation::in_order(const Message& message, Nanos arrival) {
  const double share = dice();
  const auto later =
      static_cast<int64_t>(share * static_cast<double>(options_.messages.class_jitter.count));
  Nanos& last = last_arrivals_[{message.from, message.to, class_of(message.kind)}];
  last = std::max(last, arrival + Nanos{later});
  return last;
}

double Simulation::dice() {
  return random_uniform({.seed = options_.messages.seed, .stream = Stream::kJitter, .name = 1},
                        rolls_++);
}

int64_t Simulation::bytes_on_link(const Message& message) const {
  if (options_.payloads.empty()) return message.payload_bytes;
  const PayloadFactors& factors = options_.payloads[static_cast<size_t>(message.from.stage.value)];
  const bool hop =
      message.kind == MessageKind::kActivation || message.kind == MessageKind::kGradient;
  const bool round =
      message.kind == MessageKind::kContribution || message.kind == MessageKind::kAnswer;
  const bool evaluation =
      message.kind == MessageKind::kEvaluation || message.lane == Lane::kEvaluation;
  const double factor = evaluation ? factors.evaluation
                        : hop      ? factors.hop
                        : round    ? factors.round
                                   : 1;
  return std::llround(static_cast<double>(message.payload_bytes) * factor);
}

void Simulation::remind(Message message, Nanos after) {
  ++reminders_;
  if (message.kind == MessageKind::kDeadline) checker_->asked_for(message, after, clock_.now());
  agenda_.enter(clock_.now() + after, Happening::kArrived, messages_.put(std::move(message)));
}

// Every worker has a disk of its own, which writes one state after another.
void Simulation::store(std::shared_ptr<const StageState> state) {
  const size_t at = mesh_.index(state->worker);
  Seat& seat = seats_[at];
  if (!seat.storing) return begin_store(at, std::move(state));
  if (!seat.waiting || makes_room(*seat.waiting, *state)) std::swap(seat.waiting, state);
  if (state) tell_stored(at, replaced_message(*state));
}

void Simulation::begin_store(size_t at, std::shared_ptr<const StageState> state) {
  seats_[at].storing = std::move(state);
  agenda_.enter(clock_.now() + options_.save_time, Happening::kStored, at);
}

// As in real time: what cannot be written is tried again, until a newer state takes its place.
void Simulation::finish_store(size_t at, Recorder& recorder) {
  Seat& seat = seats_[at];
  // It was being written when its worker was lost.
  if (faults_->is_gone(at, clock_.now()) || !seat.storing) return;
  quiet_ = 0;
  const std::shared_ptr<const StageState> state = std::exchange(seat.storing, nullptr);
  const Result<ShardStore::Stored> stored =
      shards_ == nullptr ? ShardStore::Stored{} : shards_->store(*state);
  if (seat.worker->over()) {  // it cannot tell any more, but what is on disk counts
    const Message message = stored_message(*state, stored);
    return recorder.saved(std::get<ShardSaved>(*message.report));
  }
  const bool again =
      !stored.ok() && !seat.waiting && (!state->last || shards_->wait_to_store(stored.error()));
  if (again) {
    tell_stored(at, store_again_message(*state, stored.error()));
    seat.storing = state;
    return agenda_.enter(clock_.now() + kStoreAgainAfter, Happening::kStored, at);
  }
  const bool replaced = !stored.ok() && seat.waiting;
  tell_stored(at, replaced ? replaced_message(*state) : stored_message(*state, stored));
  if (seat.waiting) begin_store(at, std::exchange(seat.waiting, nullptr));
}

void Simulation::tell_stored(size_t at, Message message) {
  seats_[at].worker->deliver(std::move(message));
  touch(at);
}

void Simulation::arrive(size_t slot, bool again) {
  Message message = messages_.take(slot);
  const bool control = class_of(message.kind) == TrafficClass::kControl;
  // One that joins may ask for ever.
  if (!control && message.kind != MessageKind::kAskState) quiet_ = 0;
  if (is_reminder(message.kind)) {
    --reminders_;
    ++quiet_;
  }
  if (message.to == kCoordinator) return tell_coordinator(message);
  const size_t to = mesh_.index(message.to);
  const bool gone = faults_->is_gone(to, clock_.now());
  if (!control) check_arrival(message, gone, again);
  if (gone) return;
  // Who was told that the session is over has left: a coordinator that comes later learns that.
  if (seats_[to].worker->over() && message.kind == MessageKind::kTellAgain) {
    return tell_coordinator(lost_message(mesh_.id(to), seats_[to].worker->incarnation()));
  }
  seats_[to].worker->deliver(std::move(message));
  touch(to);
}

// A part of a round that a worker refuses has not arrived; but another copy of it may, when there
// is room for it.
void Simulation::check_arrival(const Message& message, bool gone, bool again) {
  const Worker& to = *seats_[mesh_.index(message.to)].worker;
  const bool of_round = class_of(message.kind) == TrafficClass::kAveraging;
  // One that has restarted may take a copy anew of what it had before.
  const bool anew = to.table().epoch(message.to.replica) > 0;
  if (again && (gone || !of_round || (refused_.empty() && !anew))) return;
  const bool taken = !gone && !to.is_stale(message) && (!of_round || to.check(message).empty());
  const RoundPart part = {message.kind, message.from,  message.to,
                          message.lane, message.index, message.chunk};
  if (again) {
    const bool was_refused = taken && refused_.erase(part) > 0;
    if (was_refused || (taken && anew)) checker_->received_again(message, clock_.now());
    return;
  }
  if (!taken && of_round) refused_.insert(part);
  taken ? checker_->received(message, clock_.now()) : checker_->lost(message);
}

void Simulation::tell_coordinator(const Message& message) {
  if (coordinator_) coordinator_->deliver(message);
}

}  // namespace leeway::sim
