// The worker's first verb, deliver(): what it takes of a message, and what it refuses.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/check_envelope.h"
#include "worker/worker.h"

namespace leeway {
namespace {

bool is_transfer(MessageKind kind) {
  return kind == MessageKind::kAskState || kind == MessageKind::kState;
}

bool is_round(MessageKind kind) {
  const bool averages = class_of(kind) == TrafficClass::kAveraging && !is_transfer(kind);
  return averages || kind == MessageKind::kDeadline;
}

bool is_of_own_driver(MessageKind kind) {
  return kind == MessageKind::kDeadline || kind == MessageKind::kRemind ||
         kind == MessageKind::kStored;
}

// What a driver says of a saved state is a report of the worker itself.
bool is_answer_to(WorkerId worker, const Message& message) {
  if (message.report == nullptr) return false;
  const auto* const saved = std::get_if<ShardSaved>(message.report.get());
  return saved != nullptr && saved->worker == worker;
}

bool is_order(MessageKind kind) {
  return kind >= MessageKind::kNameEnd && kind <= MessageKind::kOver;
}

}  // namespace

void Worker::deliver(Message message) {
  const CheckScope scope({id_, counts_.updates, plan_.seed});
  if (is_stale(message)) return;
  if (is_early(message)) return early_.push_back(std::move(message));
  if (const std::string_view reason = check(message); !reason.empty()) {
    if (is_round(message.kind)) rounds_.refuse(message);
    return refusals_.add(message, reason);
  }
  if (message.envelope.ends > 0) end_.hear_of_stop(message.envelope.ends);
  if (message.envelope.saves > 0 && is_first()) requested_saves_.hear(message.envelope.saves);
  file(std::move(message));
}

// What was sent before a replica restarted, to it or by it, is for nobody any more.
bool Worker::is_stale(const Message& message) const {
  if (is_order(message.kind)) {
    // A coordinator that begins again does not know who is in a place.
    const bool for_all = message.kind == MessageKind::kTable ||
                         message.kind == MessageKind::kOver ||
                         message.kind == MessageKind::kTellAgain;
    return !for_all && message.envelope.incarnation != incarnation_;
  }
  // It has no part in rounds yet, or begins them anew in a moment.
  const bool begins =
      receiver_ || (!next_tables_.empty() && restarts_by(next_tables_.rbegin()->second));
  if (begins && is_round(message.kind)) return true;
  // For the one that was in this place before: it may have answered this chunk.
  const bool part = message.kind == MessageKind::kContribution;
  if (part && message.envelope.table < table_.epoch(id_.replica)) return true;
  const bool known = plan_.mesh().contains(message.from) && !is_of_own_driver(message.kind);
  if (!known || message.envelope.run != plan_.run) return false;
  if (message.envelope.epoch < table_.epoch(message.from.replica)) return true;
  if (message.envelope.incarnation < table_.incarnation(message.from)) return true;
  const bool own = class_of(message.kind) == TrafficClass::kPipeline;
  return own && (receiver_ || !table_.has(id_.replica)) && !is_early(message);
}

bool Worker::is_early(const Message& message) const {
  constexpr size_t kEarlyMax = 1024;
  return class_of(message.kind) == TrafficClass::kPipeline && message.to == id_ &&
         message.envelope.run == plan_.run && message.from.replica == id_.replica &&
         message.envelope.epoch > table_.epoch(id_.replica) && early_.size() < kEarlyMax;
}

std::string_view Worker::check(const Message& message) const {
  if (message.to != id_) return "for another worker";
  if (is_of_own_driver(message.kind)) {
    if (message.from != id_) return "a reminder of another worker";
    if (message.kind == MessageKind::kStored) {
      return is_answer_to(id_, message) ? "" : "not about a state of this worker";
    }
    return message.kind == MessageKind::kDeadline ? rounds_.check(message) : "";
  }
  if (const std::string_view reason = check_envelope(message, plan_); !reason.empty()) {
    return reason;
  }
  if (is_order(message.kind)) {
    if (message.from != kCoordinator) return "an order of a worker";
    if (message.kind != MessageKind::kTable) return "";
    const Membership* const table = message.table.get();
    return table != nullptr && table->number() > 0 && fits(*table, plan_) ? ""
                                                                          : "a table that is none";
  }
  if (is_transfer(message.kind)) return check_transfer(message);
  if (const std::string_view reason = check_sender(message); !reason.empty()) return reason;
  if (is_round(message.kind)) return rounds_.check(message);
  const bool evaluates =
      message.kind >= MessageKind::kEvaluation && message.kind <= MessageKind::kGaveUp;
  return evaluates ? check_evaluation(message) : check_pipeline(message);
}

std::string_view Worker::check_sender(const Message& message) const {
  const WorkerId from = message.from;
  if (from == kCoordinator || class_of(message.kind) == TrafficClass::kControl) {
    return "a kind that a worker does not take";
  }
  if (is_round(message.kind)) return from == id_ ? "from this worker itself" : "";
  if (from.replica != id_.replica) return "from another replica";
  const int64_t stage = from.stage.value;
  const int64_t own = id_.stage.value;
  switch (message.kind) {
    case MessageKind::kActivation:
    case MessageKind::kEvaluation:
      return stage == own - 1 ? "" : "not from the stage before";
    case MessageKind::kGradient:
      return stage == own + 1 ? "" : "not from the stage after";
    case MessageKind::kNorms:
    case MessageKind::kGaveUp:
      return is_first() && stage > 0 ? "" : "not for this stage";
    case MessageKind::kEvaluated:
      return is_first() && stage == plan_.shape.stages - 1 && stage > 0 ? "" : "not for this stage";
    default:  // kTotalNorm, kFlushAt, kSaveAt
      return stage == 0 && own > 0 ? "" : "not from stage 0";
  }
}

// A stage can only be as far ahead as its schedule allows, so that inboxes are bounded.
std::string_view Worker::check_pipeline(const Message& message) const {
  constexpr std::string_view kEarly = "too far ahead";
  const int64_t next_update = counts_.updates + 1;
  switch (message.kind) {
    case MessageKind::kActivation:
      if (message.index > counts_.backwards + warmup_before_) return kEarly;
      break;
    case MessageKind::kGradient:
      if (message.index >= counts_.forwards) return kEarly;
      break;
    case MessageKind::kNorms:
    case MessageKind::kTotalNorm: {
      if (!clip_norms_.shared()) return "norms are not shared in this schedule";
      if (message.index > next_update) return kEarly;
      const at::Tensor& norms = message.payload;
      const bool fits =
          compute_ == nullptr ||
          (norms.defined() && norms.scalar_type() == at::kDouble && norms.dim() == 1 &&
           (message.kind == MessageKind::kNorms || norms.numel() == 1));
      return fits ? "" : "a payload of another shape or type";
    }
    default:  // kFlushAt, kSaveAt
      return message.index <= plan_.updates_max() ? "" : "after the end";
  }
  const bool fits = compute_ == nullptr || compute_->fits_activation(message.payload);
  return fits ? "" : "a payload of another shape or type";
}

std::string_view Worker::check_evaluation(const Message& message) const {
  if (message.kind == MessageKind::kGaveUp)
    return message.index <= counts_.updates + 1 ? "" : "too far ahead";
  if (message.update > counts_.updates + 1) return "too far ahead";
  if (message.index > plan_.evaluation_batches) return "a batch that there is not";
  if (message.kind == MessageKind::kEvaluated) return "";
  const auto in_flight_max = static_cast<size_t>(2 * plan_.shape.stages + 4);
  if (inbox_.evaluations.size() > in_flight_max) return "more than can be in flight";
  const bool marker = message.index == plan_.evaluation_batches;
  const bool names_replicas =
      !message.replicas.empty() && ReplicaSet::first(plan_.replicas).has_all(message.replicas);
  if (!marker && !names_replicas) return "an evaluation of no replica that there is";
  const bool fits = marker || compute_ == nullptr || compute_->fits_evaluation(message.payload);
  return fits ? "" : "a payload of another shape or type";
}

std::string_view Worker::check_transfer(const Message& message) const {
  if (message.from.stage != id_.stage || message.from == id_) return "from another stage";
  if (message.kind == MessageKind::kAskState) return "";
  if (message.index < 1 || message.chunk >= message.index) return "a part that there is not";
  const auto* const what =
      message.report == nullptr ? nullptr : std::get_if<ShardSaved>(message.report.get());
  if (what == nullptr || what->update != message.update ||
      what->rounds.size() != plan_.lanes.size()) {
    return "a state that does not say what it is";
  }
  if (!rounds_.can_be(what->chunks)) return "a state of another common model";
  if (compute_ == nullptr) return "";
  const int64_t size = compute_->state_bytes();
  if (message.index > state_parts(size) + 1) return "a state that is too large";
  return part_without_hash(message.payload).defined() ? "" : "a part that is damaged";
}

// What has been used already is a duplicate, and dropped.
void Worker::file(Message message) {
  switch (message.kind) {
    case MessageKind::kActivation:
      if (message.index < counts_.forwards) return;
      if (message.update > 0) requested_saves_.expect_save_at(message.update);
      return inbox_.activations.put(message.index, std::move(message.payload));
    case MessageKind::kGradient:
      if (message.index < counts_.backwards) return;
      return inbox_.gradients.put(message.index, std::move(message.payload));
    case MessageKind::kEvaluation:
      if (message.index == plan_.evaluation_batches) return want_give_up(message.update);
      if (evaluations_.was_evaluated(message.update, message.index)) return;
      rounds_.expect_evaluation(message.update, message.replicas);
      return inbox_.evaluations.put({message.update, message.index}, std::move(message.payload));
    case MessageKind::kEvaluated:
      return evaluations_.acknowledged(message.update, message.index);
    case MessageKind::kGaveUp:
      return want_give_up(message.index);
    case MessageKind::kNorms:
      if (message.index <= counts_.updates) return;
      return clip_norms_.deliver_norms(message.index, message.from.stage,
                                       std::move(message.payload));
    case MessageKind::kTotalNorm:
      if (message.index <= counts_.updates) return;
      return clip_norms_.deliver_total(message.index, std::move(message.payload));
    case MessageKind::kFlushAt:
      return end_.stop_at(message.index);
    case MessageKind::kSaveAt:
      return requested_saves_.save_at(message.index, message.update);
    case MessageKind::kContribution:
    case MessageKind::kAnswer:
    case MessageKind::kAskAgain:
    case MessageKind::kDeadline:
      return rounds_.deliver(std::move(message));
    case MessageKind::kAskState:
      // One that has left, or has yet to join, has no state to give.
      if (takes_part()) donor_.ask(message.from.replica, message.update, message.chunk);
      return;
    case MessageKind::kState:
      return receiver_ ? receiver_->deliver(message) : void();
    case MessageKind::kRemind:
      told_done_ = false;
      if (!receiver_) return;
      if (message.index == 0) announce_due_ = true;
      return receiver_->reminded(message.index);
    case MessageKind::kStored: {
      const auto& saved = std::get<ShardSaved>(*message.report);
      const bool newest =
          unstored_ && unstored_->update == saved.update && unstored_->last == saved.last;
      if (newest && !saved.again) storing_ = false;
      // One that made room for an older one may turn out to be the last.
      if (newest && !saved.again && !saved.replaced) unstored_.reset();
      if (saved.stored()) newest_stored_ = saved;
      stored_.push_back(saved);
      return;
    }
    default:
      return file_order(message);
  }
}

void Worker::file_order(const Message& message) {
  switch (message.kind) {
    case MessageKind::kNameEnd:
      return end_.want_stop();
    case MessageKind::kEndAt:
      return end_.hear_of_stop(message.index);
    case MessageKind::kNameSave:
      return requested_saves_.want_name(message.index);
    case MessageKind::kSaveBy:
      return is_first() ? requested_saves_.hear(message.index) : void();
    case MessageKind::kTable: {
      const int64_t newest = next_tables_.empty() ? table_.number() : next_tables_.rbegin()->first;
      if (message.table->number() > newest)
        next_tables_.emplace(message.table->number(), *message.table);
      newest_update_ = std::max(newest_update_, message.index);
      return;
    }
    case MessageKind::kHeard:
      return reports_.heard(message.index);
    case MessageKind::kTellAgain:
      if (message.envelope.incarnation == incarnation_) reports_.heard(message.index);
      tell_again_ = true;
      tell_all_ = tell_all_ || message.update > 0;
      return;
    case MessageKind::kOver:
      over_ = true;
      return;
    default:
      LEEWAY_UNREACHABLE("check() lets no other kind pass");
  }
}

void Worker::want_give_up(int64_t update) {
  give_up_wanted_ = std::max(give_up_wanted_.value_or(update), update);
}

}  // namespace leeway
