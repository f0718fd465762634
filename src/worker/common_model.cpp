#include "worker/common_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

// By the checkpoint that the session begins with.
CommonMember::Start start_of(const RunPlan& plan, WorkerId worker, size_t lane) {
  CommonMember::Start start = {.updates = plan.first_update_of(worker.replica)};
  if (plan.starts.empty()) return start;
  const ReplicaStart& saved = plan.starts[static_cast<size_t>(worker.replica.value)];
  const auto stage = static_cast<size_t>(worker.stage.value);
  start.contributions = saved.rounds[stage][lane];
  const bool same_cut = stage < saved.chunks.size() &&
                        std::ssize(saved.chunks[stage]) == plan.lanes[lane].chunks(worker.stage);
  if (same_cut) start.chunks = saved.chunks[stage];
  return start;
}

// The largest number of a contribution or an answer by then.
int64_t begun_by(const RunPlan& plan) {
  int64_t begun = 0;
  for (const ReplicaStart& start : plan.starts) {
    for (const auto& lanes : start.rounds) begun = std::max(begun, std::ranges::max(lanes));
    for (const auto& stage : start.chunks) {
      for (const ChunkPosition& chunk : stage) begun = std::max(begun, chunk.answer);
    }
  }
  return begun;
}

}  // namespace

CommonModel::CommonModel(WorkerId id, const RunPlan& plan, size_t lane, StageCompute* compute)
    : id_(id),
      plan_(plan),
      lane_(plan.lanes[lane]),
      compute_(compute),
      begun_(begun_by(plan)),
      table_(plan.replicas),
      member_(lane_, id, start_of(plan, id, lane)),
      asked_(static_cast<size_t>(lane_.chunks(id.stage))) {
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    owners_.emplace_back(lane_, id.replica, chunk, table_);
  }
}

ReplicaId CommonModel::owner(int64_t chunk, const Membership& table) const {
  return lane_.owner(0, chunk, table);
}

std::string_view CommonModel::check(const Message& message) const {
  const bool same_table = message.envelope.table == table_.number();
  const bool older_table = message.envelope.table < table_.number();
  const ReplicaId owner = this->owner(message.chunk, table_);
  const ReplicaId from = message.from.replica;
  switch (message.kind) {
    case MessageKind::kContribution:
      if ((same_table || older_table) && owner != id_.replica) return "a part for another owner";
      if (!message.ended.empty() && message.ended != ReplicaSet::of(from)) {
        return "the end of another replica";
      }
      if (message.have >= numbers_max() || message.chained > message.have) {
        return "answers that there are not";
      }
      return message.since <= message.envelope.table ? "" : "by a table that its sender has not";
    case MessageKind::kAnswer: {
      // The owner before may have told others something else, or nothing: the new one knows.
      const bool brought_up = message.again && owner == id_.replica;
      if (from != owner && !brought_up) return "an answer of no owner";
      if (!ReplicaSet::first(plan_.replicas).has_all(message.ended)) {
        return "a replica that there is not";
      }
      if (message.since > message.envelope.table) return "by a table that its sender has not";
      return are_counts(message) ? "" : "contributions that there are not";
    }
    default:
      return "";
  }
}

bool CommonModel::are_counts(const Message& answer) const {
  const auto is_one = [&](ReplicaId replica, int64_t number) {
    return replica.value < plan_.replicas && number < numbers_max();
  };
  return std::ranges::all_of(
             answer.parts, [&](const PartId& part) { return is_one(part.replica, part.number); }) &&
         std::ranges::all_of(answer.counted, [&](const CountedParts& parts) {
           return is_one(parts.replica, parts.newest);
         });
}

void CommonModel::deliver(Message message) {
  const bool waits = message.kind == MessageKind::kAnswer && message.chunk == busy_;
  if (waits) return meanwhile_.push_back(std::move(message));
  file(std::move(message));
}

void CommonModel::file(Message message) {
  const auto chunk = static_cast<size_t>(message.chunk);
  switch (message.kind) {
    case MessageKind::kAnswer:
      // What counts is what is there.
      if (compute_ != nullptr) {
        message.payload_bytes =
            message.payload.defined() ? static_cast<int64_t>(message.payload.nbytes()) : 0;
      }
      return member_.deliver(std::move(message));
    case MessageKind::kDeadline:
      if (message.index == kNudge) {
        nudged_ = true;
        reminded_ = false;
        return;
      }
      // Another answer may have been made meanwhile.
      if (message.index != member_.log(message.chunk).received() + 1) return;
      return owners_[chunk].deliver(std::move(message));
    case MessageKind::kAskAgain: {
      const ReplicaId from = message.from.replica;
      if (message.index == kWhere) {
        tells_ = true;
        return;
      }
      std::erase_if(asks_, [&](const Ask& ask) {
        return ask.replica == from && ask.chunk == message.chunk && ask.number != kMends;
      });
      const bool has = message.index > 0 && message.index <= member_.log(message.chunk).received();
      const int64_t last = message.have > 0 ? message.have : INT64_MAX;
      if (has) asks_.push_back({from, message.chunk, message.index, last});
      return;
    }
    default:
      compare(message);
      return owners_[chunk].deliver(std::move(message));
  }
}

// Whoever has applied the same answers has the same chunk, or takes it anew from its owner.
void CommonModel::compare(const Message& contribution) {
  const ReplicaId from = contribution.from.replica;
  const ChunkLog& log = member_.log(contribution.chunk);
  const std::optional<uint64_t> own = log.chain_at(contribution.chained);
  if (!own || *own == contribution.chain) return;
  int64_t& mended = mended_[{contribution.chunk, from}];
  if (contribution.chained <= mended) return;
  mended = log.applied();
  asks_.push_back({from, contribution.chunk, kMends});
  Message named = contribution;
  named.payload.reset();
  different_.push_back(std::move(named));
  ++differed_;
}

Work CommonModel::work(WorkKind kind, int64_t updates, int64_t index, int64_t chunk) const {
  return {.kind = kind,
          .index = index,
          .update = updates,
          .version = updates,
          .delay = 0,
          .lane = lane_.lane,
          .chunk = chunk};
}

// Whether this worker takes a chunk over and has yet to ask for what it lacks.
bool CommonModel::asks(int64_t chunk) const {
  const int64_t received = member_.log(chunk).received();
  return owners_[static_cast<size_t>(chunk)].ahead(received) &&
         asked_[static_cast<size_t>(chunk)].number != received + 1;
}

std::optional<Work> CommonModel::duty(int64_t updates) const {
  if (nudged_ || tells_) return work(WorkKind::kAwait, updates, kNudge, 0);
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    const CommonOwner& owner = owners_[static_cast<size_t>(chunk)];
    const int64_t received = member_.log(chunk).received();
    if (owner.closable(received) && member_.log(chunk).has_room()) {
      Work reduce = work(WorkKind::kReduce, updates, received + 1, chunk);
      reduce.parts = owner.next_parts();
      for (const PartId& part : reduce.parts) reduce.replicas.add(part.replica);
      return reduce;
    }
    if (owner.await_due() || asks(chunk) || owner.brings_up(received)) {
      return work(WorkKind::kAwait, updates, received + 1, chunk);
    }
  }
  for (const Ask& ask : asks_) {
    Work again = work(WorkKind::kRepeat, updates, ask.number, ask.chunk);
    again.replicas = ReplicaSet::of(ask.replica);
    return again;
  }
  return std::nullopt;
}

Turn CommonModel::turn(const Boundary& boundary) const {
  const bool merges = !boundary.saved && lane_.merges_at(position_of(boundary, lane_.update_every));
  const auto merge_due =
      merges ? member_.merge_due(boundary.backwards, boundary.flushes) : std::nullopt;
  if (const auto& due = merge_due) {
    if (!due->arrived) return {.due = true};
    Work merge = work(WorkKind::kMerge, boundary.updates, due->number, due->chunk);
    place_merge(boundary, lane_.update_every, due->lag_backwards, merge);
    merge.whole = due->whole;
    if (due->counts) merge.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = merge};
  }
  if (boundary.when == Boundary::When::kInsideUpdate) return {};
  const bool last = boundary.ends && is_last(boundary.updates);
  const CommonMember::Contribution due = member_.contribution_due(boundary, last);
  if (due != CommonMember::Contribution::kNone) {
    // Only steps need a number: so a session that ends on the way changes none of those after it.
    const bool steps = due == CommonMember::Contribution::kSteps;
    Work part = work(WorkKind::kContribute, boundary.updates, contributions() + (steps ? 1 : 0), 0);
    if (steps) part.replicas = ReplicaSet::of(id_.replica);
    return {.due = true, .work = part};
  }
  // Where a session ends early, a replica that does not come does not keep the others from saving.
  const bool gives_up = nudges_ >= kNudgesMax && (boundary.stops || !last);
  const bool waits = boundary.ends && !boundary.saved && !gives_up;
  return {.due = waits && !member_.drained(table_.members())};
}

void CommonModel::began(const Work& work) {
  const bool of_chunk = work.kind == WorkKind::kReduce || work.kind == WorkKind::kMerge ||
                        work.kind == WorkKind::kRepeat;
  if (of_chunk) busy_ = work.chunk;
}

void CommonModel::run(const Work& work, Outcome& outcome) {
  AveragingCompute& averaging = compute_->averaging();
  if (work.kind == WorkKind::kAwait && work.index == kNudge && takes_for_lost()) {
    outcome.parts = averaging.sent_steps(lane_.lane, under_way());
  }
  if (work.kind == WorkKind::kContribute && !work.replicas.empty()) {
    outcome.parts = averaging.contribute_steps(lane_.lane, work.index, may_send(),
                                               /*exact=*/is_last(work.update));
    const auto again = averaging.sent_steps(lane_.lane, sends_again(work.index));
    for (size_t chunk = 0; chunk < again.size(); ++chunk) {
      if (again[chunk].defined()) outcome.parts[chunk] = again[chunk];
    }
  }
  if (work.kind == WorkKind::kReduce && !work.parts.empty()) {
    const CommonOwner& owner = owners_[static_cast<size_t>(work.chunk)];
    auto reduced = averaging.reduce_steps(lane_.lane, work.parts, work.chunk,
                                          owner.payloads(work.parts), owner.members());
    outcome.payload = std::move(reduced.answer);
    outcome.round_norms = std::move(reduced.norms);
    for (const size_t part : reduced.refused) outcome.refused.add(work.parts[part].replica);
  }
  if (work.kind == WorkKind::kRepeat && gives_whole(work)) {
    outcome.payload = averaging.common_chunk(lane_.lane, work.chunk);
  }
  if (work.kind == WorkKind::kMerge) run_merge(work, outcome);
}

std::vector<bool> CommonModel::may_send() const {
  std::vector<bool> sends;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) sends.push_back(member_.may_send(chunk));
  return sends;
}

std::vector<int64_t> CommonModel::under_way() const {
  std::vector<int64_t> numbers;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    numbers.push_back(member_.newest_under_way(chunk));
  }
  return numbers;
}

// On a slow line a contribution takes long, and so does its answer: they are taken for lost after
// 4, 8, 16 seconds.
bool CommonModel::takes_for_lost() const {
  const auto nudge = static_cast<uint64_t>(nudges_ + 1);
  return !reminded_ && nudge >= 4 && std::has_single_bit(nudge);
}

// Where so much is under way that nothing is sent, all of it may have been lost: an answer to the
// newest one settles the others too.
std::vector<int64_t> CommonModel::sends_again(int64_t number) const {
  std::vector<int64_t> again(owners_.size(), 0);
  if (number % kAskAfter != 0) return again;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    if (member_.may_send(chunk)) continue;
    again[static_cast<size_t>(chunk)] = member_.newest_under_way(chunk);
  }
  return again;
}

void CommonModel::run_merge(const Work& work, Outcome& outcome) {
  AveragingCompute& averaging = compute_->averaging();
  const Message& answer = *answer_of(work);
  const CommonMember::Settled settled = member_.settles(answer);
  if (answer.whole) {
    return averaging.replace_common(lane_.lane, work.chunk, answer.payload, settled.in,
                                    settled.lost);
  }
  outcome.round_norms =
      averaging.merge_steps(lane_.lane, work.chunk, answer.payload, settled.in, settled.lost);
  // Now and then: the same answers should make the same bits. Not of every answer: a GPU would have
  // to bring it to the host first.
  if (answer.index % lane_.check_every == 0) {
    outcome.hash = averaging.chunk_hash(lane_.lane, work.chunk);
  }
}

int64_t CommonModel::numbers_max() const {
  const int64_t restarts = kNumbersApart * (2 + table_.number()) * (2 + table_.number());
  return begun_ + plan_.replicas * (plan_.updates_max() + 2) + restarts;
}

void CommonModel::begin_session() {
  member_.begin_session();
  for (CommonOwner& owner : owners_) owner.begin_session();
  nudges_ = 0;
}

std::vector<ChunkPosition> CommonModel::positions() const {
  std::vector<ChunkPosition> positions;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    positions.push_back(member_.log(chunk).position());
    if (compute_ == nullptr) continue;
    positions.back().values = compute_->averaging().chunk_values(lane_.lane, chunk);
  }
  return positions;
}

bool CommonModel::can_be(const std::vector<ChunkPosition>& positions) const {
  return std::ssize(positions) == chunks() &&
         std::ranges::all_of(positions, [&](const ChunkPosition& chunk) {
           return is_sound(chunk) && chunk.answer < numbers_max();
         });
}

std::vector<int64_t> CommonModel::have() const {
  std::vector<int64_t> numbers;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    numbers.push_back(member_.log(chunk).received());
  }
  return numbers;
}

bool CommonModel::can_repeat(const Work& work, bool at_boundary, bool inside) const {
  const ChunkLog& log = member_.log(work.chunk);
  switch (work.kind) {
    case WorkKind::kContribute:
      return work.replicas.empty() ? work.index == contributions()
                                   : at_boundary && work.index == member_.next_number();
    case WorkKind::kReduce:
      return work.index == log.received() + 1 &&
             owners_[static_cast<size_t>(work.chunk)].has(work.parts);
    case WorkKind::kMerge:
      return (at_boundary || inside) && answer_of(work) != nullptr;
    case WorkKind::kRepeat:
      return work.index <= log.received();
    default:
      return true;
  }
}

void CommonModel::add_to(RoundCounts& counts) const {
  counts.late += member_.lost();
  counts.differed += differed_;
  counts.written_off += taken_over_ + member_.unknown();
  for (const CommonOwner& owner : owners_) counts.missing += owner.missing();
}

void CommonModel::add_to(Held& held) const {
  member_.add_to(held);
  held.repeats += std::ssize(asks_);
  for (const CommonOwner& owner : owners_) owner.add_to(held);
}

}  // namespace leeway
