#include "drivers/sim/round_checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "worker/membership.h"

namespace leeway::sim {
namespace {

// A worker gives a round up after this many more, so that its memory is bounded.
constexpr int64_t kFlightsMax = 64;
// The checker's own memory: no message is about anything older.
constexpr int64_t kRememberedRounds = 2048;

bool is_duty(WorkKind kind) {
  return kind == WorkKind::kReduce || kind == WorkKind::kAwait || kind == WorkKind::kRepeat;
}

bool ends_boundary(WorkKind kind) {
  return kind == WorkKind::kForward || kind == WorkKind::kBackward || kind == WorkKind::kSave;
}

}  // namespace

RoundChecker::RoundChecker(const Mesh& mesh, const RunPlan& plan)
    : mesh_(mesh), plan_(plan), lanes_(plan.lanes), seats_(mesh.count()), chunks_(mesh.count()) {
  lanes_.push_back(plan.evaluation);
  tables_[0] = Membership(plan.replicas);
  for (Seat& seat : seats_) seat.table = tables_[0];
}

const LanePlan* RoundChecker::plan_of(Lane lane) const {
  const auto found = std::ranges::find(lanes_, lane, &LanePlan::lane);
  return found == lanes_.end() ? nullptr : &*found;
}

int64_t RoundChecker::epoch_of(WorkerId worker) const {
  return seats_[mesh_.index(worker)].table.epoch(worker.replica);
}

RoundChecker::Chunk& RoundChecker::chunk_of(WorkerId owner, Lane lane, const ChunkId& id,
                                            int64_t epoch) {
  auto& rounds = chunks_[static_cast<size_t>(owner.stage.value)][static_cast<size_t>(lane)];
  Chunks& chunks = rounds[id.first];
  auto at = std::ranges::lower_bound(chunks, id.second, {}, &Chunk::chunk);
  for (; at != chunks.end() && at->chunk == id.second; ++at) {
    if (at->owner == owner.replica && at->epoch == epoch) return *at;
  }
  const Chunk chunk = {
      .chunk = id.second, .owner = owner.replica, .epoch = epoch, .parts = {}, .first_part_at = {}};
  return *chunks.insert(at, chunk);
}

const RoundChecker::Chunk* RoundChecker::find_chunk(WorkerId owner, Lane lane,
                                                    const ChunkId& id) const {
  const auto& rounds = chunks_[static_cast<size_t>(owner.stage.value)][static_cast<size_t>(lane)];
  const Chunks* const chunks = rounds.find(id.first);
  if (chunks == nullptr) return nullptr;
  auto at = std::ranges::lower_bound(*chunks, id.second, {}, &Chunk::chunk);
  for (; at != chunks->end() && at->chunk == id.second; ++at) {
    if (at->owner == owner.replica && at->epoch == epoch_of(owner)) return &*at;
  }
  return nullptr;
}

// Every worker goes by the same tables, one after the other.
void RoundChecker::adopt(size_t worker, const Work& work) {
  Seat& seat = seats_[worker];
  seat.table = tables_.try_emplace(work.index, work.index, work.replicas).first->second;
  LEEWAY_CHECK(seat.table.members() == work.replicas, "a table has one set of members");
  const ReplicaId own = mesh_.id(worker).replica;
  for (const LanePlan& plan : lanes_) {
    Diary& diary = seat.diaries[static_cast<size_t>(plan.lane)];
    // It may have told itself not to wait for its own part, which nobody sees.
    diary.unsure_until = std::max(diary.unsure_until, diary.last_round);
    std::erase_if(diary.open, [&](const ChunkId& id) {
      if (plan.lane == Lane::kEvaluation) return true;
      const bool away = plan.owner(id.first, id.second, seat.table) != own;
      if (away) diary.given_away.insert(id);
      return away;
    });
  }
}

void RoundChecker::restarted(size_t worker, int64_t update) {
  Seat& seat = seats_[worker];
  const Membership table = seat.table;
  seat = {};
  seat.at_boundary = false;
  seat.table = table;
  seat.given_up = update;
}

void RoundChecker::give_up(size_t worker, int64_t evaluation) {
  Seat& seat = seats_[worker];
  seat.given_up = std::max(seat.given_up, evaluation);
  auto& open = seat.diaries[static_cast<size_t>(Lane::kEvaluation)].open;
  std::erase_if(open, [&](const ChunkId& id) { return id.first <= seat.given_up; });
}

std::string RoundChecker::began(size_t worker, const Work& work, const Moment& moment) {
  Seat& seat = seats_[worker];
  // A new table comes first: it may change what an owner waits for.
  const bool at_once = work.kind == WorkKind::kAdopt || work.kind == WorkKind::kReport;
  if (!is_duty(work.kind) && !at_once) {
    if (std::string wrong = duties(worker, moment.now); !wrong.empty()) return wrong;
  }
  if (seat.flushes && work.kind != WorkKind::kSave && ends_boundary(work.kind)) {
    return "a merge came before its planned lag, but not at a flush point";
  }
  if (work.kind == WorkKind::kSave) seat.flushes = false;
  if (ends_boundary(work.kind)) seat.at_boundary = seat.inside = false;
  if (work.kind == WorkKind::kUpdate) seat.at_boundary = true;
  // Inside an update if another backward follows before it.
  if (work.kind == WorkKind::kBackward) {
    seat.inside = (moment.backwards + 1) % plan_.shape.update_every != 0;
  }
  if (work.kind == WorkKind::kAdopt) adopt(worker, work);
  if (work.kind == WorkKind::kReport) give_up(worker, work.index);
  if (!is_of_round(work.kind)) return "";
  const LanePlan* const plan = plan_of(work.lane);
  if (plan == nullptr) return "a round of a lane that this run does not have";
  if (plan->common) return at_boundary_if_needed(worker, *plan, work, moment);
  const WorkerId id = mesh_.id(worker);
  if (is_duty(work.kind) && !may_own(*plan, id.replica, {work.index, work.chunk})) {
    return "an owner's duty, done by a worker that does not own the chunk";
  }
  switch (work.kind) {
    case WorkKind::kContribute:
      return contribute(worker, work, moment);
    case WorkKind::kReduce:
      return reduce(worker, work);
    case WorkKind::kMerge:
      return merge(worker, work, moment);
    case WorkKind::kAwait:
      return "";
    default:
      return chunk_of(id, work.lane, {work.index, work.chunk}, epoch_of(id)).mean_of
                 ? ""
                 : "a repeat of an answer that was never given";
  }
}

const Membership& RoundChecker::sender_table(const Message& message) const {
  const auto found = tables_.find(message.envelope.table);
  LEEWAY_CHECK(found != tables_.end(), "a message goes by a table that its sender has adopted");
  return found->second;
}

// By any of the tables: a worker finishes what it has begun under an earlier one.
bool RoundChecker::may_own(const LanePlan& plan, ReplicaId replica, const ChunkId& id) const {
  return std::ranges::any_of(tables_, [&](const auto& table) {
    return plan.owner(id.first, id.second, table.second) == replica;
  });
}

// An owner attends to its chunks before it starts anything else: a chunk whose first part has
// arrived gets a deadline, and one whose deadline has passed is closed. So no chunk stays open for
// longer than its deadline plus the work its owner was busy with.
std::string RoundChecker::duties(size_t worker, Nanos now) const {
  for (const LanePlan& plan : lanes_) {
    // A copy for evaluation waits for the evaluator to come to its update, and for stage 0's word.
    if (!plan.deadline || plan.lane == Lane::kEvaluation || plan.common) continue;
    for (const ChunkId& id : seats_[worker].diaries[static_cast<size_t>(plan.lane)].open) {
      const Chunk* const chunk = find_chunk(mesh_.id(worker), plan.lane, id);
      LEEWAY_CHECK(chunk != nullptr, "a chunk is known before it is open");
      if (chunk->open_until && *chunk->open_until >= now) continue;
      return fmt::format("it keeps round {} chunk {} of lane {} open; its first part came at {}",
                         id.first, id.second, lane_word(plan.lane), chunk->first_part_at.count);
    }
  }
  return "";
}

std::string RoundChecker::asked_for(const Message& deadline, Nanos after, Nanos now) {
  const LanePlan* const plan = plan_of(deadline.lane);
  if (plan != nullptr && plan->common) return "";
  if (plan == nullptr || !plan->deadline) return "a deadline of a lane that has none";
  const bool planned = plan->deadline_follows ? after >= *plan->deadline : after == *plan->deadline;
  if (!planned) return fmt::format("a deadline of {} ns is not the planned one", after.count);
  const ChunkId id = {deadline.index, deadline.chunk};
  chunk_of(deadline.from, deadline.lane, id, epoch_of(deadline.from)).open_until = now + after;
  return "";
}

std::string RoundChecker::at_boundary(size_t worker, const LanePlan& plan,
                                      const Moment& moment) const {
  if (plan.gradients) return moment.update_due ? "" : "before its gradients are complete";
  return seats_[worker].at_boundary ? "" : "away from the boundary of an update";
}

// Weights and steps are merged at the boundary of an update, or after any of its backwards.
std::string RoundChecker::where_merges_are(size_t worker, const LanePlan& plan, const Work& work,
                                           const Moment& moment) const {
  const int64_t since = moment.backwards - moment.updates * plan_.shape.update_every;
  const bool inside = !plan.gradients && seats_[worker].inside;
  if (work.position != (inside ? since : 0)) return fmt::format("the position is {}", since);
  const int64_t positions = inside ? plan_.shape.update_every : 1;
  if (work.positions != positions) return fmt::format("an update has {} positions", positions);
  if (!inside) return at_boundary(worker, plan, moment);
  return plan.merges_at(since) ? "" : "inside an update, where its lag does not end";
}

std::string RoundChecker::at_boundary_if_needed(size_t worker, const LanePlan& plan,
                                                const Work& work, const Moment& moment) const {
  // That one has ended is said after its state is saved, too.
  const bool steps = work.kind == WorkKind::kContribute && !work.replicas.empty();
  if (work.kind == WorkKind::kMerge) return where_merges_are(worker, plan, work, moment);
  return steps ? at_boundary(worker, plan, moment) : "";
}

std::string RoundChecker::contribute(size_t worker, const Work& work, const Moment& moment) {
  const LanePlan& plan = *plan_of(work.lane);
  const WorkerId id = mesh_.id(worker);
  Diary& diary = seats_[worker].diaries[static_cast<size_t>(work.lane)];
  if (std::string wrong = at_boundary(worker, plan, moment); !wrong.empty()) return wrong;
  if (work.index <= diary.last_round) return "a worker's rounds are strictly ascending";
  const bool weighs = !work.replicas.empty();
  if (weighs && work.replicas != ReplicaSet::of(id.replica)) return "in another's name";
  diary.last_round = work.index;
  if (weighs) diary.pages[work.index].sent_at = moment.backwards;
  for (int64_t chunk = 0; chunk < plan.chunks(id.stage); ++chunk) {
    if (plan.owner(work.index, chunk, seats_[worker].table) != id.replica) continue;
    note_part(id, id.replica, plan, {work.index, chunk}, weighs, moment.now);
  }
  forget_old(id.stage, work.lane, work.index);
  return "";
}

// Evaluations are numbered by updates, and are few and far apart: they are never forgotten.
void RoundChecker::forget_old(StageId stage, Lane lane, int64_t round) {
  if (lane == Lane::kEvaluation) return;
  const int64_t first = round - kRememberedRounds;
  if (!chunks_[static_cast<size_t>(stage.value)][static_cast<size_t>(lane)].forget_before(first)) {
    return;
  }
  for (int64_t r = 0; r < mesh_.replicas; ++r) {
    const WorkerId worker = {.replica = {r}, .stage = stage};
    Diary& diary = seats_[mesh_.index(worker)].diaries[static_cast<size_t>(lane)];
    diary.pages.forget_before(first);
    diary.open.erase(diary.open.begin(), std::ranges::lower_bound(diary.open, ChunkId{first, 0}));
  }
}

void RoundChecker::note_part(WorkerId from, ReplicaId owned_by, const LanePlan& plan,
                             const ChunkId& id, bool weighs, Nanos now) {
  const WorkerId owner = {.replica = owned_by, .stage = from.stage};
  Chunk& chunk = chunk_of(owner, plan.lane, id, epoch_of(owner));
  if (weighs) chunk.parts.add(from.replica);
  if (chunk.mean_of) return;
  Diary& diary = seats_[mesh_.index(owner)].diaries[static_cast<size_t>(plan.lane)];
  // An owner ignores parts of rounds this old.
  const bool over = plan.lane != Lane::kEvaluation && id.first <= diary.newest_mean - kFlightsMax;
  const auto place = std::ranges::lower_bound(diary.open, id);
  const bool is_open = place != diary.open.end() && *place == id;
  const bool unsure = id.first <= diary.unsure_until || diary.given_away.contains(id);
  if (!is_open && (over || unsure)) return;
  // Nor does it keep one that it does not own any more, by its own table.
  const Seat& seat = seats_[mesh_.index(owner)];
  if (plan.lane == Lane::kEvaluation && id.first <= seat.given_up) return;
  const Membership& table = seat.table;
  const bool changed = table != tables_.at(0);
  if (changed &&
      (plan.lane == Lane::kEvaluation || plan.owner(id.first, id.second, table) != owned_by)) {
    return;
  }
  if (is_open) return;
  diary.open.insert(place, id);
  chunk.first_part_at = now;
}

std::string RoundChecker::reduce(size_t worker, const Work& work) {
  const WorkerId id = mesh_.id(worker);
  const ChunkId which = {work.index, work.chunk};
  Chunk& chunk = chunk_of(id, work.lane, which, epoch_of(id));
  if (chunk.mean_of) return "a chunk has one answer";
  const bool alone =
      work.lane == Lane::kEvaluation && !plan_of(work.lane)->evaluates_mean(work.index);
  if (alone && work.replicas != ReplicaSet::of(id.replica))
    return "an evaluation of own weights is of the evaluator's";
  if (!chunk.parts.has_all(work.replicas)) return "a mean of a part that has not arrived";
  chunk.mean_of = work.replicas;
  Diary& diary = seats_[worker].diaries[static_cast<size_t>(work.lane)];
  std::erase(diary.open, which);
  diary.newest_mean = std::max(diary.newest_mean, work.index);
  // An owner does not message itself.
  if (!work.replicas.empty()) diary.pages[work.index].arrived.set(static_cast<size_t>(work.chunk));
  return "";
}

// Before a flush point a merge may come earlier.
std::string RoundChecker::planned_lag(size_t worker, const Work& work, const Moment& moment,
                                      int64_t lag, std::optional<int64_t> planned) {
  if (work.delay != lag / plan_.shape.update_every) {
    return fmt::format("the lag is {} backwards", lag);
  }
  if (!planned) return "";
  if (lag > *planned) {
    return fmt::format("the lag is {} backwards, not {} as planned", lag, *planned);
  }
  Seat& seat = seats_[worker];
  const bool flush = !seat.inside && plan_.saves_at(mesh_.id(worker).replica, moment.updates);
  if (lag < *planned && !flush) seat.flushes = true;
  return "";
}

std::string RoundChecker::merged_after(size_t worker, const Work& work, const Moment& moment,
                                       std::optional<int64_t> lag, bool waits) {
  if (!lag || work.replicas.empty()) return "";  // it may have taken its own for lost
  const auto planned = waits ? plan_of(work.lane)->lag_backwards : std::nullopt;
  return planned_lag(worker, work, moment, *lag, planned);
}

std::string RoundChecker::merge(size_t worker, const Work& work, const Moment& moment) {
  const LanePlan& plan = *plan_of(work.lane);
  const auto chunk = static_cast<size_t>(work.chunk);
  Diary& diary = seats_[worker].diaries[static_cast<size_t>(work.lane)];
  if (std::string wrong = where_merges_are(worker, plan, work, moment); !wrong.empty())
    return wrong;
  Page& page = diary.pages[work.index];
  if (!page.arrived.test(chunk)) return "a merge before its answer has arrived";
  if (page.merged.test(chunk)) return "a chunk is merged once";
  page.merged.set(chunk);
  const bool weighed = page.sent_at >= 0;
  if (weighed != !work.replicas.empty()) return "it is wrong about whether it sent its part";
  const int64_t lag = weighed ? moment.backwards - page.sent_at : 0;
  if (plan.lag_backwards && !weighed) return "a merge with a planned lag, of what it has not sent";
  if (std::string wrong = planned_lag(worker, work, moment, lag, plan.lag_backwards);
      !wrong.empty())
    return wrong;
  if (!plan.lag_backwards && work.index <= diary.last_round - kFlightsMax) {
    return "a round that should have been given up";
  }
  return "";
}

std::string RoundChecker::received(const Message& message, Nanos now) {
  const bool answer = message.kind == MessageKind::kAnswer;
  if (!answer && message.kind != MessageKind::kContribution) return "";
  const LanePlan* const plan = plan_of(message.lane);
  const ChunkId id = {message.index, message.chunk};
  const auto where = [&](const char* wrong) {
    return fmt::format("stage {} lane {} round {} chunk {}, from replica {} to {}: {}",
                       message.from.stage.value, lane_word(message.lane), id.first, id.second,
                       message.from.replica.value, message.to.replica.value, wrong);
  };
  if (plan == nullptr) return where("a message of a lane that this run does not have");
  if (message.from.stage != message.to.stage) return where("a round stays within one stage");
  if (plan->common) return "";
  if (!answer) {
    const ReplicaId owner = plan->owner(message.index, message.chunk, sender_table(message));
    if (message.to.replica != owner) return where("a part sent to a replica that is not its owner");
    const bool weighs = !message.replicas.empty();
    if (weighs && message.replicas != ReplicaSet::of(message.from.replica)) {
      return where("in another's name");
    }
    note_part(message.from, message.to.replica, *plan, id, weighs, now);
    return "";
  }
  if (!may_own(*plan, message.from.replica, id)) {
    return where("an answer from a replica that is not its owner");
  }
  const Chunk& chunk = chunk_of(message.from, message.lane, id, message.envelope.epoch);
  if (!chunk.mean_of || *chunk.mean_of != message.replicas) {
    return where("the contributors are not those of the mean");
  }
  Diary& diary = seats_[mesh_.index(message.to)].diaries[static_cast<size_t>(message.lane)];
  diary.pages[message.index].arrived.set(static_cast<size_t>(message.chunk));
  return "";
}

}  // namespace leeway::sim
