#include "worker/rounds.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/deadline.h"

namespace leeway {
namespace {

Work round_work(WorkKind kind, Lane lane, int64_t updates, RoundOwner::ChunkId id) {
  return {.kind = kind,
          .index = id.round,
          .update = updates,
          .version = updates,
          .delay = 0,
          .lane = lane,
          .chunk = id.chunk};
}

}  // namespace

Rounds::Rounds(WorkerId id, const RunPlan& plan, StageCompute* compute)
    : id_(id),
      plan_(plan),
      compute_(compute),
      table_(plan.replicas),
      update_times_(static_cast<size_t>(plan.replicas)) {
  const int64_t updates = plan.first_update_of(id.replica);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const LanePlan& options = plan.lanes[lane];
    int64_t next_round = 0;
    if (!plan.starts.empty()) {
      const auto& rounds = plan.starts[static_cast<size_t>(id.replica.value)].rounds;
      next_round = rounds[static_cast<size_t>(id.stage.value)][lane];
    }
    seats_.push_back({options, RoundOwner(options, id), RoundMember(options, updates, next_round)});
  }
  const LanePlan& copies = plan.evaluation;
  LEEWAY_CHECK(copies.replicas == plan.replicas, "every replica sends its copy for evaluation");
  seats_.push_back({copies, RoundOwner(copies, id), RoundMember(copies, updates, 0)});
}

const Rounds::Seat* Rounds::find(Lane lane) const {
  const auto found = std::find_if(seats_.begin(), seats_.end(),
                                  [&](const Seat& seat) { return seat.plan.lane == lane; });
  return found == seats_.end() ? nullptr : &*found;
}

const Rounds::Seat& Rounds::seat(Lane lane) const {
  const Seat* const found = find(lane);
  LEEWAY_CHECK(found != nullptr, "the lane belongs to this run");
  return *found;
}

Rounds::Seat& Rounds::seat(Lane lane) { return const_cast<Seat&>(std::as_const(*this).seat(lane)); }

std::optional<Work> Rounds::duty(int64_t updates) const {
  for (const Seat& lane : seats_) {
    const Lane which = lane.plan.lane;
    if (const auto id = lane.owner.to_reduce()) {
      Work reduce = round_work(WorkKind::kReduce, which, updates, *id);
      reduce.replicas = lane.owner.contributors(*id);
      return reduce;
    }
    if (const auto id = lane.owner.to_await()) {
      return round_work(WorkKind::kAwait, which, updates, *id);
    }
    if (const auto repeat = lane.owner.to_repeat()) {
      Work again = round_work(WorkKind::kRepeat, which, updates, repeat->id);
      again.replicas = ReplicaSet::of(repeat->replica);
      return again;
    }
  }
  return std::nullopt;
}

Turn Rounds::turn(const Boundary& boundary) const {
  const auto is_here = [&](const Seat& lane) {
    const bool before = boundary.when == When::kBeforeUpdate;
    return lane.plan.lane != Lane::kEvaluation && lane.plan.gradients == before;
  };
  for (const Seat& lane : seats_) {
    if (!is_here(lane)) continue;
    const auto due = lane.member.merge_due(boundary.update, boundary.flushes);
    if (!due) continue;
    if (!due->arrived) return {.due = true};
    Work merge =
        round_work(WorkKind::kMerge, lane.plan.lane, boundary.updates, {due->round, due->chunk});
    merge.delay = due->lag;
    if (due->sent) merge.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = merge};
  }
  for (const Seat& lane : seats_) {
    if (!is_here(lane) || !lane.member.contributes_at(boundary.update)) continue;
    Work part = round_work(WorkKind::kContribute, lane.plan.lane, boundary.updates,
                           {lane.member.next_round(), 0});
    if (!lane.member.follows()) part.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = part};
  }
  return {};
}

Work Rounds::copy_for_evaluation(int64_t update) const {
  Work copy = round_work(WorkKind::kContribute, Lane::kEvaluation, update, {update, 0});
  // Another replica may have become the evaluator since the update: own weights stay here.
  if (plan_.evaluates_mean(update) || evaluator() == id_.replica)
    copy.replicas = ReplicaSet::of(id_.replica);
  return copy;
}

void Rounds::deliver(Message message) {
  Seat& lane = seat(message.lane);
  if (message.kind == MessageKind::kAnswer) return lane.member.deliver(std::move(message));
  if (message.kind == MessageKind::kContribution) {
    lane.member.heard_of(message.index);
    update_times_[static_cast<size_t>(message.from.replica.value)] = message.update_time;
  }
  lane.owner.deliver(std::move(message));
}

void Rounds::run(const Work& work, Outcome& outcome) {
  if (compute_ == nullptr) return;
  const Seat& lane = seat(work.lane);
  if (work.kind == WorkKind::kContribute) run_contribution(work, lane, outcome);
  if (work.kind == WorkKind::kReduce) run_reduction(work, lane, outcome);
  if (work.kind == WorkKind::kMerge) run_merge(work, lane, outcome);
}

void Rounds::run_contribution(const Work& work, const Seat& lane, Outcome& outcome) {
  for (const int64_t stale : lane.member.stale(work.index)) {
    compute_->averaging().forget(work.lane, stale);
  }
  if (work.replicas.empty()) return;
  if (work.lane == Lane::kEvaluation) {
    const bool travels = evaluator() != id_.replica;
    outcome.parts = {compute_->copy_for_evaluation(travels && lane.plan.rounds_copies(work.index))};
  } else {
    outcome.parts = compute_->averaging().contribute(work.lane, work.index);
  }
}

void Rounds::run_reduction(const Work& work, const Seat& lane, Outcome& outcome) {
  if (work.replicas.empty()) return;
  const std::vector<at::Tensor> parts =
      lane.owner.contributions({work.index, work.chunk}, work.replicas);
  if (work.lane == Lane::kEvaluation) return compute_->hold_for_evaluation(work.index, parts);
  auto reduced = compute_->averaging().reduce(work.lane, work.index, work.chunk, parts,
                                              /*awaited=*/lane.plan.lag.has_value());
  outcome.payload = std::move(reduced.answer);
  outcome.round_norms = reduced.norms;
  const std::vector<ReplicaId> replicas = work.replicas.members();
  for (const size_t part : reduced.refused) outcome.refused.add(replicas[part]);
}

void Rounds::run_merge(const Work& work, const Seat& lane, Outcome& outcome) {
  const Message& answer = lane.member.answer(work.index, work.chunk);
  outcome.round_norms = compute_->merge(work.lane, work.index, work.chunk, answer.payload,
                                        answer.replicas.contains(id_.replica));
}

void Rounds::finish(const Work& work, const Outcome& outcome, Outbox& outbox,
                    std::vector<Message>& sent) {
  switch (work.kind) {
    case WorkKind::kContribute:
      return finish_contribution(work, outcome, sent);
    case WorkKind::kReduce:
      return finish_reduction(work, outcome, sent);
    case WorkKind::kMerge:
      return finish_merge(work, sent);
    case WorkKind::kRepeat:
      return finish_repetition(work, sent);
    case WorkKind::kAwait: {
      Seat& lane = seat(work.lane);
      lane.owner.awaits({work.index, work.chunk});
      outbox.remind(message(MessageKind::kDeadline, work, id_.replica, {}), deadline(lane));
      return;
    }
    default:
      LEEWAY_UNREACHABLE("not a piece of a round");
  }
}

void Rounds::finish_contribution(const Work& work, const Outcome& outcome,
                                 std::vector<Message>& sent) {
  Seat& lane = seat(work.lane);
  const bool counts = !work.replicas.empty();
  for (const int64_t stale : lane.member.stale(work.index)) lane.member.forget(stale);
  for (int64_t chunk = 0; chunk < lane.plan.chunks(); ++chunk) {
    Work of_chunk = work;
    of_chunk.chunk = chunk;
    const auto at = static_cast<size_t>(chunk);
    const at::Tensor part = outcome.parts.empty() ? at::Tensor() : outcome.parts[at];
    const ReplicaId owner = lane.plan.owner(work.index, chunk, table_);
    Message contribution = message(MessageKind::kContribution, of_chunk, owner, part);
    if (!counts) contribution.payload_bytes = 0;
    contribution.update_time = update_time_.get();
    contribution.stretch = lane.member.stretch_wanted();
    post(std::move(contribution), sent);
  }
  if (work.lane == Lane::kEvaluation) return;
  lane.member.contributed(work.index, work.update + (lane.plan.gradients ? 1 : 0), counts);
}

void Rounds::finish_reduction(const Work& work, const Outcome& outcome,
                              std::vector<Message>& sent) {
  Seat& lane = seat(work.lane);
  const int64_t stretch = lane.owner.stretch({work.index, work.chunk});
  lane.owner.reduced({work.index, work.chunk}, work.replicas, outcome.payload);
  if (work.lane == Lane::kEvaluation) return;  // the mean stays here
  if (work.replicas.empty()) return;           // every member follows: there is no mean
  for (const ReplicaId replica : table_.members()) {
    Message answer = message(MessageKind::kAnswer, work, replica, outcome.payload);
    answer.stretch = stretch;
    post(std::move(answer), sent);
  }
}

ReplicaId Rounds::evaluator() const { return plan_.evaluation.owner(0, 0, table_); }

void Rounds::run_adoption(const Membership& table) {
  if (compute_ == nullptr) return;
  for (const Seat& lane : seats_) {
    for (const int64_t round : lane.member.orphaned(table_, table)) {
      compute_->averaging().forget(lane.plan.lane, round);
    }
  }
}

// Who has sent a part under an old table must not keep the new owner waiting: with a fixed lag not
// with rounds given up before either, nor one that may have dropped the part in between.
void Rounds::finish_adoption(const Membership& table, std::optional<int64_t> copied_elsewhere,
                             std::vector<Message>& sent) {
  const Membership before = std::exchange(table_, table);
  for (Seat& lane : seats_) {
    lane.owner.adopt(table, copied_elsewhere.value_or(-1));
    const bool evaluation = lane.plan.lane == Lane::kEvaluation;
    std::vector<int64_t> begun = lane.member.orphaned(before, table);
    for (const int64_t round : begun) lane.member.forget_orphan(round);
    const bool waits = lane.plan.lag.has_value();
    if (waits) begun.assign(lane.member.orphans().begin(), lane.member.orphans().end());
    if (evaluation && copied_elsewhere) begun.push_back(*copied_elsewhere);
    if (!table.has(id_.replica)) continue;
    for (const int64_t round : begun) {
      for (int64_t chunk = 0; chunk < lane.plan.chunks(); ++chunk) {
        const ReplicaId owner = lane.plan.owner(round, chunk, table);
        if (!waits && owner == lane.plan.owner(round, chunk, before)) continue;
        Work none = round_work(WorkKind::kContribute, lane.plan.lane, 0, {round, chunk});
        Message part = message(MessageKind::kContribution, none, owner, {});
        part.payload_bytes = 0;
        part.update_time = update_time_.get();
        post(std::move(part), sent);
      }
    }
  }
}

void Rounds::restart(const Membership& table, int64_t updates, const std::vector<int64_t>& rounds) {
  table_ = table;
  for (size_t at = 0; at < seats_.size(); ++at) {
    Seat& lane = seats_[at];
    const bool evaluation = lane.plan.lane == Lane::kEvaluation;
    lane.owner = RoundOwner(lane.plan, id_);
    lane.owner.adopt(table, /*copied=*/-1);
    if (evaluation) lane.owner.give_up(updates);
    lane.member.restart(updates, at < rounds.size() ? rounds[at] : 0);
  }
}

void Rounds::finish_merge(const Work& work, std::vector<Message>& sent) {
  Seat& lane = seat(work.lane);
  lane.member.merged(work.index, work.chunk, work.delay);
  for (const auto& [round, chunk] : lane.member.take_missed(work.index)) {
    Work missed = work;
    missed.index = round;
    missed.chunk = chunk;
    const ReplicaId owner = lane.plan.owner(round, chunk, table_);
    post(message(MessageKind::kAskAgain, missed, owner, {}), sent);
  }
}

void Rounds::finish_repetition(const Work& work, std::vector<Message>& sent) {
  Seat& lane = seat(work.lane);
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  const RoundOwner::Answer* const answer = lane.owner.answer(id);
  for (const ReplicaId replica : work.replicas) {
    Message again = message(MessageKind::kAnswer, work, replica, answer->payload);
    again.replicas = answer->replicas;
    again.stretch = answer->stretch;
    post(std::move(again), sent);
    lane.owner.repeated(id, replica);
  }
}

// Counts the size even without a payload: the simulator sends only sizes.
Message Rounds::message(MessageKind kind, const Work& work, ReplicaId to,
                        const at::Tensor& payload) const {
  const bool carries = kind == MessageKind::kContribution || kind == MessageKind::kAnswer;
  const LanePlan& plan = seat(work.lane).plan;
  int64_t payload_bytes = 0;
  if (payload.defined()) {
    payload_bytes = static_cast<int64_t>(payload.nbytes());
  } else if (carries && !plan.sizes.empty()) {
    payload_bytes = plan.bytes(id_.stage, work.index, work.chunk);
  }
  return {.kind = kind,
          .from = id_,
          .to = {.replica = to, .stage = id_.stage},
          .index = work.index,
          .update = work.update,
          .payload = payload,
          .payload_bytes = payload_bytes,
          .lane = work.lane,
          .chunk = work.chunk,
          .replicas = work.replicas};
}

void Rounds::post(Message message, std::vector<Message>& sent) {
  if (message.to == id_) return deliver(std::move(message));
  sent.push_back(std::move(message));
}

Nanos Rounds::deadline(const Seat& lane) const {
  FleetPace pace = {.update_times = update_times_,
                    .absent = lane.owner.absent(),
                    .stretch = lane.member.stretch()};
  for (int64_t r = 0; r < plan_.replicas; ++r) {
    if (!table_.has({r})) pace.absent.add({r});
  }
  pace.update_times[static_cast<size_t>(id_.replica.value)] = update_time_.get();
  return deadline_of(lane.plan, pace);
}

bool Rounds::completes_gradients(const Work& work) const {
  const LanePlan& plan = seat(work.lane).plan;
  return work.kind == WorkKind::kMerge && plan.gradients && work.chunk + 1 == plan.chunks();
}

bool Rounds::is_before_update(const Work& work) const {
  const Seat* const lane = is_of_round(work.kind) ? find(work.lane) : nullptr;
  return lane != nullptr && lane->plan.gradients;
}

bool Rounds::can_repeat(const Work& work, bool update_due, bool at_boundary) const {
  const Seat& lane = seat(work.lane);
  const bool now = lane.plan.gradients ? update_due : at_boundary;
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  switch (work.kind) {
    case WorkKind::kContribute: {
      const int64_t update = work.update + (lane.plan.gradients ? 1 : 0);
      return now && lane.member.can_contribute(work.index, update);
    }
    case WorkKind::kReduce:
      return lane.owner.has(id, work.replicas);
    case WorkKind::kMerge:
      return now && lane.member.has_answer(work.index, work.chunk);
    case WorkKind::kRepeat:
      return lane.owner.answer(id) != nullptr;
    default:
      return true;
  }
}

void Rounds::forget_in_compute() {
  if (compute_ == nullptr) return;
  for (const Seat& lane : seats_) {
    for (const int64_t round : lane.member.in_flight()) {
      compute_->averaging().forget(lane.plan.lane, round);
    }
  }
}

void Rounds::flush() {
  for (Seat& lane : seats_) {
    if (lane.plan.lane != Lane::kEvaluation) lane.member.flush();
  }
}

std::vector<int64_t> Rounds::rounds_begun() const {
  std::vector<int64_t> rounds;
  for (const Seat& lane : seats_) {
    if (lane.plan.lane != Lane::kEvaluation) rounds.push_back(lane.member.rounds_begun());
  }
  return rounds;
}

RoundCounts Rounds::counts() const {
  RoundCounts counts;
  for (const Seat& lane : seats_) {
    if (lane.plan.lane == Lane::kEvaluation) continue;
    counts.late += lane.owner.late();
    counts.missing += lane.owner.missing();
    counts.missed += lane.member.missed();
    counts.dropped += lane.member.dropped();
  }
  return counts;
}

}  // namespace leeway
