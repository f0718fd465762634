// What a worker takes of messages about rounds.
#include <algorithm>
#include <cstdlib>

#include "worker/rounds.h"

namespace leeway {

// A contribution makes at most one new round, and each replica contributes once per interval.
int64_t Rounds::rounds_max(const LanePlan& plan) const {
  const int64_t updates = plan_.updates_max();
  if (plan.lane == Lane::kEvaluation) return updates + 1;
  return plan_.replicas * (updates / plan.interval + 2);
}

bool Rounds::is_far_ahead(const Seat& lane, const Message& message) const {
  constexpr int64_t kJumpMax = 64;
  if (lane.plan.lane == Lane::kEvaluation) return false;
  if (message.index <= lane.member.newest_heard() + kJumpMax) return false;
  if (!lane.jump) return true;
  const auto [from, round] = *lane.jump;
  const bool same = from == message.from.replica && round == message.index;
  return same || std::abs(round - message.index) > kJumpMax;
}

std::string_view Rounds::check(const Message& message) const {
  const Seat* const lane = find(message.lane);
  const LanePlan* const plan = is_common(message.lane) ? &common_->plan()
                               : lane != nullptr       ? &lane->plan
                                                       : nullptr;
  if (plan == nullptr) return "a kind of round that this run does not have";
  if (message.from.stage != id_.stage) return "a round stays within one stage";
  if (message.from.replica.value >= plan_.replicas) return "from a replica that there is not";
  if (message.chunk >= plan->chunks(id_.stage)) return "a chunk that there is not";
  const int64_t rounds = is_common(message.lane) ? common_->numbers_max() : rounds_max(*plan);
  if (message.index >= rounds) return "a round after the end of the run";
  const bool mine = message.from == id_;
  if (message.kind == MessageKind::kDeadline) return mine ? "" : "a deadline of another worker";
  const bool part = message.kind == MessageKind::kContribution;
  if (part && !message.replicas.empty() &&
      message.replicas != ReplicaSet::of(message.from.replica)) {
    return "in the name of another replica";
  }
  if (!ReplicaSet::first(plan_.replicas).has_all(message.replicas)) {
    return "a replica that there is not";
  }
  if (is_common(message.lane)) {
    const std::string_view reason = common_->check(message);
    return reason.empty() ? check_payload(message) : reason;
  }
  if (message.kind == MessageKind::kAskAgain) return "an answer that nobody keeps";
  // Where the tables differ, the sender may be right about the owner.
  // A sender that has an older one will hear of the new owner, and tell it not to wait.
  const bool same_table = message.envelope.table == table_.number();
  const bool older_table = message.envelope.table < table_.number();
  const ReplicaId owner = lane->plan.owner(message.index, message.chunk, table_);
  if (part && (same_table || older_table) && owner != id_.replica) {
    return "a part for another owner";
  }
  const bool alone =
      lane->plan.lane == Lane::kEvaluation && !lane->plan.evaluates_mean(message.index);
  if (part && alone && !message.replicas.empty()) return "a copy for an evaluation of one replica";
  // The last evaluation is of the final model: its copies are kept, however far ahead they come.
  const bool is_final = lane->plan.lane == Lane::kEvaluation && message.index == plan_.run_updates;
  if (part && !is_final && lane->owner.full({message.index, message.chunk}))
    return "more than can be open";
  const bool answer = message.kind == MessageKind::kAnswer;
  if (answer && same_table && owner != message.from.replica) return "an answer of no owner";
  if (is_far_ahead(*lane, message)) return "a round far ahead of all others";
  return check_payload(message);
}

std::string_view Rounds::check_payload(const Message& message) const {
  if (compute_ == nullptr) return "";
  const bool has_payload =
      (message.kind == MessageKind::kContribution || message.kind == MessageKind::kAnswer) &&
      !message.replicas.empty();
  const bool common = is_common(message.lane) && message.kind == MessageKind::kAnswer;
  if (!has_payload && !common) return "";
  if (common && !message.whole && message.parts.empty() != !message.payload.defined()) {
    return "an answer with something in it that it does not say";
  }
  if (common && !message.whole && !message.payload.defined()) return "";
  if (message.whole) {
    const bool fits =
        message.payload.defined() &&
        compute_->averaging().fits_whole(message.lane, message.chunk, message.payload);
    return fits ? "" : "a payload of another shape or type";
  }
  const bool fits = message.payload.defined() &&
                    compute_->fits(message.lane, message.index, message.chunk, message.payload);
  return fits ? "" : "a payload of another shape or type";
}

void Rounds::refuse(const Message& message) {
  const Seat* const found = find(message.lane);
  const bool of_replica = message.from.stage == id_.stage &&
                          message.from.replica.value < plan_.replicas &&
                          message.kind != MessageKind::kDeadline;
  if (found == nullptr || !of_replica || message.index >= rounds_max(found->plan)) return;
  if (is_far_ahead(*found, message))
    seat(message.lane).jump = {message.from.replica, message.index};
}

void Rounds::add_to(Held& held) const {
  if (common_) common_->add_to(held);
  for (const Seat& lane : seats_) {
    lane.owner.add_to(held);
    lane.member.add_to(held);
  }
}

}  // namespace leeway
