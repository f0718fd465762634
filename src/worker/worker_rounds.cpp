// A worker's rounds: what is due of them, what arrives, what is computed, and what is sent.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/worker.h"

namespace leeway {

Worker::LaneSeat& Worker::seat(Lane lane) {
  return const_cast<LaneSeat&>(std::as_const(*this).seat(lane));
}

const Worker::LaneSeat& Worker::seat(Lane lane) const {
  const LaneSeat* const found = find_seat(lane);
  LEEWAY_CHECK(found != nullptr, "a lane of this run");
  return *found;
}

const Worker::LaneSeat* Worker::find_seat(Lane lane) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const LaneSeat& seat) { return seat.plan.lane == lane; });
  return found == lanes_.end() ? nullptr : &*found;
}

Work Worker::round_work(WorkKind kind, Lane lane, int64_t round, int64_t chunk) const {
  return {.kind = kind,
          .index = round,
          .update = counts_.updates,
          .version = counts_.updates,
          .delay = 0,
          .lane = lane,
          .chunk = chunk};
}

// An owner's duties.
std::optional<Work> Worker::owed() const {
  for (const LaneSeat& lane : lanes_) {
    const Lane which = lane.plan.lane;
    if (const auto id = lane.owner.to_reduce()) {
      Work reduce = round_work(WorkKind::kReduce, which, id->round, id->chunk);
      reduce.replicas = lane.owner.contributors(*id);
      return reduce;
    }
    if (const auto id = lane.owner.to_await()) {
      return round_work(WorkKind::kAwait, which, id->round, id->chunk);
    }
    if (const auto repeat = lane.owner.to_repeat()) {
      Work again = round_work(WorkKind::kRepeat, which, repeat->id.round, repeat->id.chunk);
      again.replicas = ReplicaSet::of(repeat->replica);
      return again;
    }
  }
  return std::nullopt;
}

// Everything but the update that changes weights happens at the boundary behind it: merges that are
// due, then contributions to new rounds, their merges if there is no lag, and copies for
// evaluation. Gradients are averaged before it.
Worker::Turn Worker::averaging_turn() const {
  if (schedule_.update_due(counts_)) return lanes_turn(/*gradients=*/true, counts_.updates + 1);
  if (!at_boundary_) return {};
  if (const Turn turn = lanes_turn(/*gradients=*/false, counts_.updates); turn.due) return turn;
  if (!copy_due_) return {};
  Work copy = round_work(WorkKind::kContribute, Lane::kEvaluation, *copy_due_, 0);
  copy.replicas = ReplicaSet::of(id_.replica);
  return {.due = true, .work = copy};
}

Worker::Turn Worker::lanes_turn(bool gradients, int64_t update) const {
  const auto is_here = [&](const LaneSeat& lane) {
    return lane.plan.lane != Lane::kEvaluation && lane.plan.gradients == gradients;
  };
  const bool flushes =
      !gradients && (plan_.saves_at(counts_.updates) || counts_.updates == last_update_);
  for (const LaneSeat& lane : lanes_) {
    const auto due = is_here(lane) ? lane.member.merge_due(update, flushes) : std::nullopt;
    if (!due) continue;
    if (!due->arrived) return {.due = true};
    Work merge = round_work(WorkKind::kMerge, lane.plan.lane, due->round, due->chunk);
    merge.delay = due->lag;
    if (due->sent) merge.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = merge};
  }
  for (const LaneSeat& lane : lanes_) {
    if (!is_here(lane) || !lane.member.contributes_at(update)) continue;
    Work part = round_work(WorkKind::kContribute, lane.plan.lane, lane.member.next_round(), 0);
    if (!lane.member.follows()) part.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = part};
  }
  return {};
}

// A message is input: what cannot be of this run is left alone.
bool Worker::is_of_this_mesh(const Message& message) const {
  const LaneSeat* const lane = find_seat(message.lane);
  if (lane == nullptr || message.from.stage != id_.stage) return false;
  if (message.from.replica.value >= plan_.replicas || message.chunk >= lane->plan.chunks()) {
    return false;
  }
  const bool part = message.kind == MessageKind::kContribution;
  if (part && lane->plan.owner(message.index, message.chunk) != id_.replica) return false;
  if (compute_ == nullptr) return true;
  const bool has_numbers =
      part ? message.replicas.contains(message.from.replica) : message.kind == MessageKind::kAnswer;
  if (!has_numbers) return true;
  return message.payload.defined() &&
         compute_->fits(message.lane, message.index, message.chunk, message.payload);
}

void Worker::deliver_round(Message message) {
  if (!is_of_this_mesh(message)) return;
  LaneSeat& lane = seat(message.lane);
  if (message.kind == MessageKind::kAnswer) return lane.member.deliver(std::move(message));
  if (message.kind == MessageKind::kContribution) lane.member.heard_of(message.index);
  lane.owner.deliver(std::move(message));
}

void Worker::run_round(const Work& work) {
  LaneSeat& lane = seat(work.lane);
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  switch (work.kind) {
    case WorkKind::kContribute:
      for (const int64_t stale : lane.member.stale(work.index)) {
        compute_->averaging().forget(work.lane, stale);
      }
      if (work.lane == Lane::kEvaluation) {
        parts_ = {compute_->stage().weights().clone()};
      } else if (!work.replicas.empty()) {
        parts_ = compute_->averaging().contribute(work.lane, work.index);
      }
      return;
    case WorkKind::kReduce: {
      if (work.replicas.empty()) return;
      const std::vector<at::Tensor> parts = lane.owner.contributions(id, work.replicas);
      if (work.lane == Lane::kEvaluation) {
        compute_->hold_mean_for_evaluation(work.index, parts);
        return;
      }
      auto reduced = compute_->averaging().reduce(work.lane, work.index, work.chunk, parts);
      result_ = std::move(reduced.answer);
      sizes_ = reduced.norms;
      return;
    }
    case WorkKind::kMerge: {
      const Message& answer = lane.member.answer(work.index, work.chunk);
      sizes_ = compute_->merge(work.lane, work.index, work.chunk, answer.payload,
                               answer.replicas.contains(id_.replica));
      const bool complete = work.chunk + 1 == lane.plan.chunks();
      if (lane.plan.gradients && complete && sums_norms()) own_norms_ = compute_->gradient_norms();
      return;
    }
    default:
      return;  // waiting and repeating need no numbers
  }
}

void Worker::finish_round(const Work& work, Outbox& outbox) {
  LaneSeat& lane = seat(work.lane);
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  switch (work.kind) {
    case WorkKind::kContribute:
      return finish_contribution(work, lane);
    case WorkKind::kReduce:
      return finish_reduction(work, lane);
    case WorkKind::kMerge:
      return finish_merge(work, lane);
    case WorkKind::kAwait:
      lane.owner.awaits(id);
      outbox.remind(round_message(MessageKind::kDeadline, work, id_.replica, {}),
                    *lane.plan.deadline);
      return;
    case WorkKind::kRepeat: {
      const RoundOwner::Answer* answer = lane.owner.answer(id);
      for (const ReplicaId replica : work.replicas.members()) {
        Message again = round_message(MessageKind::kAnswer, work, replica, answer->payload);
        again.replicas = answer->replicas;
        post_round(std::move(again));
        lane.owner.repeated(id, replica);
      }
      return;
    }
    default:
      LEEWAY_UNREACHABLE("not a piece of a round");
  }
}

void Worker::finish_contribution(const Work& work, LaneSeat& lane) {
  const bool sent = !work.replicas.empty();
  for (const int64_t stale : lane.member.stale(work.index)) lane.member.forget(stale);
  for (int64_t chunk = 0; chunk < lane.plan.chunks(); ++chunk) {
    Work of_chunk = work;
    of_chunk.chunk = chunk;
    const at::Tensor part = parts_.empty() ? at::Tensor() : parts_[static_cast<size_t>(chunk)];
    const ReplicaId owner = lane.plan.owner(work.index, chunk);
    Message contribution = round_message(MessageKind::kContribution, of_chunk, owner, part);
    if (!sent) contribution.payload_bytes = 0;
    post_round(std::move(contribution));
  }
  parts_.clear();
  if (work.lane == Lane::kEvaluation) {
    copy_due_.reset();
    at_boundary_ = false;  // what is validated is what forwards use
    if (evaluates_here()) evaluations_.hold(work.index);
    return;
  }
  lane.member.contributed(work.index, counts_.updates + (lane.plan.gradients ? 1 : 0), sent);
}

void Worker::finish_reduction(const Work& work, LaneSeat& lane) {
  lane.owner.reduced({work.index, work.chunk}, work.replicas, result_);
  if (work.lane == Lane::kEvaluation) {
    copies_averaged_.insert(work.index);
    return;
  }
  if (work.replicas.empty()) return;  // all of them follow: there is nobody to follow
  for (int64_t replica = 0; replica < plan_.replicas; ++replica) {
    post_round(round_message(MessageKind::kAnswer, work, {replica}, result_));
  }
}

void Worker::finish_merge(const Work& work, LaneSeat& lane) {
  lane.member.merged(work.index, work.chunk, work.delay);
  for (const auto& [round, chunk] : lane.member.take_missed(work.index)) {
    Work missed = work;
    missed.index = round;
    missed.chunk = chunk;
    const ReplicaId owner = lane.plan.owner(round, chunk);
    Message ask = round_message(MessageKind::kAskAgain, missed, owner, {});
    ask.payload_bytes = 0;
    post_round(std::move(ask));
  }
  if (lane.plan.gradients && !averaging_turn().due) post_norms();
}

Message Worker::round_message(MessageKind kind, const Work& work, ReplicaId to,
                              const at::Tensor& payload) const {
  const bool carries = kind == MessageKind::kContribution || kind == MessageKind::kAnswer;
  const LanePlan& plan = seat(work.lane).plan;
  int64_t payload_bytes = 0;
  if (payload.defined()) {
    payload_bytes = static_cast<int64_t>(payload.nbytes());
  } else if (carries && !plan.sizes.empty()) {
    const ChunkSizes& sizes = plan.sizes[static_cast<size_t>(id_.stage.value)];
    payload_bytes = sizes.bytes(work.index, work.chunk, plan.chunks());
  }
  return {.kind = kind,
          .from = id_,
          .to = {.replica = to, .stage = id_.stage},
          .index = work.index,
          .update = counts_.updates,
          .payload = payload,
          .payload_bytes = payload_bytes,
          .lane = work.lane,
          .chunk = work.chunk,
          .replicas = work.replicas};
}

// A worker's own chunk does not travel.
void Worker::post_round(Message message) {
  if (message.to == id_) return deliver_round(std::move(message));
  outgoing_.push_back(std::move(message));
}

bool Worker::can_repeat(const Work& work) const {
  if (!is_of_round(work.kind)) return pipeline_turn() == work;
  const LaneSeat& lane = seat(work.lane);
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  switch (work.kind) {
    case WorkKind::kReduce:
      return lane.owner.has(id, work.replicas);
    case WorkKind::kMerge:
      return lane.member.has_answer(work.index, work.chunk);
    case WorkKind::kRepeat:
      return lane.owner.answer(id) != nullptr;
    default:
      return true;
  }
}

void Worker::drop_rounds() {
  at_boundary_ = false;  // the weights stand as they are saved
  for (LaneSeat& lane : lanes_) {
    if (lane.plan.lane == Lane::kEvaluation) continue;
    for (const int64_t round : lane.member.in_flight()) {
      if (compute_ != nullptr) compute_->averaging().forget(lane.plan.lane, round);
    }
    lane.member.flush();
  }
}

Worker::RoundCounts Worker::round_counts() const {
  RoundCounts counts;
  for (const LaneSeat& lane : lanes_) {
    if (lane.plan.lane == Lane::kEvaluation) continue;
    counts.late += lane.owner.late();
    counts.missing += lane.owner.missing();
    counts.missed += lane.member.missed();
    counts.dropped += lane.member.dropped();
  }
  return counts;
}

}  // namespace leeway
