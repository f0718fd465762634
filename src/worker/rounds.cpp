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
    LEEWAY_CHECK(options.update_every == plan.shape.update_every, "lags count these backwards");
    if (options.common) {
      common_.emplace(id, plan, lane, compute);
      continue;
    }
    int64_t next_round = 0;
    if (!plan.starts.empty()) {
      const auto& rounds = plan.starts[static_cast<size_t>(id.replica.value)].rounds;
      next_round = rounds[static_cast<size_t>(id.stage.value)][lane];
    }
    seats_.push_back(
        {options, RoundOwner(options, id), RoundMember(options, id.stage, updates, next_round)});
  }
  const LanePlan& copies = plan.evaluation;
  LEEWAY_CHECK(copies.replicas == plan.replicas, "every replica sends its copy for evaluation");
  seats_.push_back({copies, RoundOwner(copies, id), RoundMember(copies, id.stage, updates, 0)});
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
  if (common_) {
    if (auto duty = common_->duty(updates)) return duty;
  }
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
  }
  return std::nullopt;
}

Turn Rounds::turn(const Boundary& boundary) const {
  const bool before = boundary.when == Boundary::When::kBeforeUpdate;
  const bool inside = boundary.when == Boundary::When::kInsideUpdate;
  if (common_ && !before) return common_->turn(boundary);
  if (boundary.saved) return {};
  const auto is_here = [&](const Seat& lane) {
    return lane.plan.lane != Lane::kEvaluation && lane.plan.gradients == before;
  };
  for (const Seat& lane : seats_) {
    if (!is_here(lane)) continue;
    if (!lane.plan.merges_at(position_of(boundary, lane.plan.update_every))) continue;
    const auto due = lane.member.merge_due(boundary.backwards, boundary.flushes);
    if (!due) continue;
    if (!due->arrived) return {.due = true};
    Work merge =
        round_work(WorkKind::kMerge, lane.plan.lane, boundary.updates, {due->round, due->chunk});
    place_merge(boundary, lane.plan.update_every, due->lag_backwards, merge);
    if (due->sent) merge.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = merge};
  }
  if (inside) return {};
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
  const bool part = message.kind == MessageKind::kContribution;
  if (part && message.update_time.count > 0) {
    update_times_[static_cast<size_t>(message.from.replica.value)] = message.update_time;
  }
  if (is_common(message.lane)) return common_->deliver(std::move(message));
  Seat& lane = seat(message.lane);
  if (part && lane.plan.gradients && message.chain != 0) compare_models(message);
  if (message.kind == MessageKind::kAnswer) return lane.member.deliver(std::move(message));
  if (part) lane.member.heard_of(message.index);
  lane.owner.deliver(std::move(message));
}

void Rounds::run(const Work& work, Outcome& outcome) {
  if (compute_ == nullptr) return;
  if (is_common(work.lane)) return common_->run(work, outcome);
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
  const bool compares = plan_.evaluates(work.update) || plan_.checkpoints(work.update);
  if (lane.plan.gradients && compares) outcome.hash = compute_->model_hash();
}

void Rounds::run_reduction(const Work& work, const Seat& lane, Outcome& outcome) {
  if (work.replicas.empty()) return;
  const std::vector<at::Tensor> parts =
      lane.owner.contributions({work.index, work.chunk}, work.replicas);
  if (work.lane == Lane::kEvaluation) return compute_->hold_for_evaluation(work.index, parts);
  auto reduced = compute_->averaging().reduce(work.lane, work.index, work.chunk, parts,
                                              /*awaited=*/lane.plan.lag_backwards.has_value());
  outcome.payload = std::move(reduced.answer);
  outcome.round_norms = std::move(reduced.norms);
  const std::vector<ReplicaId> replicas = work.replicas.members();
  for (const size_t part : reduced.refused) outcome.refused.add(replicas[part]);
}

void Rounds::run_merge(const Work& work, const Seat& lane, Outcome& outcome) {
  const Message& answer = lane.member.answer(work.index, work.chunk);
  outcome.round_norms = compute_->merge(work.lane, work.index, work.chunk, answer.payload);
}

void Rounds::finish(const Work& work, const Outcome& outcome, Outbox& outbox,
                    std::vector<Message>& sent) {
  if (is_common(work.lane)) return common_->finish(work, outcome, pace(), outbox, sent);
  switch (work.kind) {
    case WorkKind::kContribute:
      return finish_contribution(work, outcome, sent);
    case WorkKind::kReduce:
      return finish_reduction(work, outcome, sent);
    case WorkKind::kMerge:
      return seat(work.lane).member.merged(work.index, work.chunk, lag_of(work));
    case WorkKind::kAwait: {
      Seat& lane = seat(work.lane);
      lane.owner.awaits({work.index, work.chunk});
      FleetPace fleet = pace();
      for (const ReplicaId replica : lane.owner.absent()) fleet.absent.add(replica);
      fleet.stretch = lane.member.stretch();
      outbox.remind(message(MessageKind::kDeadline, work, id_.replica, {}),
                    deadline_of(lane.plan, fleet));
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
  for (int64_t chunk = 0; chunk < lane.plan.chunks(id_.stage); ++chunk) {
    Work of_chunk = work;
    of_chunk.chunk = chunk;
    const auto at = static_cast<size_t>(chunk);
    const at::Tensor part = outcome.parts.empty() ? at::Tensor() : outcome.parts[at];
    const ReplicaId owner = lane.plan.owner(work.index, chunk, table_);
    Message contribution = message(MessageKind::kContribution, of_chunk, owner, part);
    if (!counts) contribution.payload_bytes = 0;
    contribution.update_time = update_time_.get();
    contribution.stretch = lane.member.stretch_wanted();
    if (chunk == 0) {
      contribution.chained = work.update;
      contribution.chain = outcome.hash;
    }
    post(std::move(contribution), sent);
  }
  if (work.lane == Lane::kEvaluation) return;
  lane.member.contributed(work.index, work.update + (lane.plan.gradients ? 1 : 0), counts);
}

void Rounds::finish_reduction(const Work& work, const Outcome& outcome,
                              std::vector<Message>& sent) {
  Seat& lane = seat(work.lane);
  const int64_t stretch = lane.owner.stretch({work.index, work.chunk});
  lane.owner.reduced({work.index, work.chunk}, work.replicas);
  if (work.lane == Lane::kEvaluation) return;  // the mean stays here
  if (work.replicas.empty()) return;           // every member follows: there is no mean
  for (const ReplicaId replica : table_.members()) {
    Message answer = message(MessageKind::kAnswer, work, replica, outcome.payload);
    answer.stretch = stretch;
    post(std::move(answer), sent);
  }
}

ReplicaId Rounds::evaluator() const { return plan_.evaluation.owner(0, 0, table_); }

// Counts the size even without a payload: the simulator sends only sizes.
Message Rounds::message(MessageKind kind, const Work& work, ReplicaId to,
                        const at::Tensor& payload) const {
  const bool carries = kind == MessageKind::kContribution || kind == MessageKind::kAnswer;
  const LanePlan& plan = seat(work.lane).plan;
  Message message = round_message(kind, id_, to, work, payload);
  if (!payload.defined() && carries && !plan.sizes.empty()) {
    message.payload_bytes = plan.bytes(id_.stage, work.index, work.chunk);
  }
  return message;
}

void Rounds::post(Message message, std::vector<Message>& sent) {
  if (message.to == id_) return deliver(std::move(message));
  sent.push_back(std::move(message));
}

FleetPace Rounds::pace() const {
  FleetPace pace = {.update_times = update_times_};
  for (int64_t r = 0; r < plan_.replicas; ++r) {
    if (!table_.has({r})) pace.absent.add({r});
  }
  pace.update_times[static_cast<size_t>(id_.replica.value)] = update_time_.get();
  return pace;
}

bool Rounds::completes_gradients(const Work& work) const {
  if (is_common(work.lane)) return false;
  const LanePlan& plan = seat(work.lane).plan;
  return work.kind == WorkKind::kMerge && plan.gradients &&
         work.chunk + 1 == plan.chunks(id_.stage);
}

bool Rounds::is_before_update(const Work& work) const {
  const Seat* const lane = is_of_round(work.kind) ? find(work.lane) : nullptr;
  return lane != nullptr && lane->plan.gradients;
}

bool Rounds::can_repeat(const Work& work, const Moment& now) const {
  if (is_common(work.lane)) return common_->can_repeat(work, now.at_boundary, now.inside);
  const Seat& lane = seat(work.lane);
  const bool begins = lane.plan.gradients ? now.update_due : now.at_boundary;
  const bool merges = begins || (now.inside && !lane.plan.gradients);
  const RoundOwner::ChunkId id = {work.index, work.chunk};
  switch (work.kind) {
    case WorkKind::kContribute: {
      const int64_t update = work.update + (lane.plan.gradients ? 1 : 0);
      return begins && lane.member.can_contribute(work.index, update);
    }
    case WorkKind::kReduce:
      return lane.owner.has(id, work.replicas);
    case WorkKind::kMerge:
      return merges && lane.member.has_answer(work.index, work.chunk);
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
  if (common_) rounds.push_back(common_->contributions());
  for (const Seat& lane : seats_) {
    if (lane.plan.lane != Lane::kEvaluation) rounds.push_back(lane.member.rounds_begun());
  }
  return rounds;
}

RoundCounts Rounds::counts() const {
  RoundCounts counts;
  counts.differed = differed_;
  if (common_) common_->add_to(counts);
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
