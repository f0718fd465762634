#include "worker/round_owner.h"

#include <algorithm>

#include "base/check.h"
#include "worker/membership.h"

namespace leeway {

RoundOwner::RoundOwner(const LanePlan& plan, WorkerId worker)
    : plan_(plan),
      is_told_(plan.lane == Lane::kEvaluation && worker.stage.value > 0 && plan.replicas > 1),
      replica_(worker.replica),
      table_(plan.replicas),
      newest_from_(static_cast<size_t>(plan.replicas), -1),
      heard_at_(static_cast<size_t>(plan.replicas), 0) {}

void RoundOwner::adopt(const Membership& table, int64_t copied) {
  table_ = table;
  const bool evaluation = plan_.lane == Lane::kEvaluation;
  const bool mine = table.has(replica_) && plan_.owner(0, 0, table) == replica_;
  if (evaluation && mine && newest_from_[static_cast<size_t>(replica_.value)] < copied) {
    give_up(copied);
  }
  std::erase_if(chunks_, [&](const auto& open) {
    const ChunkId& id = open.first;
    if (plan_.owner(id.round, id.chunk, table) == replica_) return false;
    // An evaluation is closed without a mean. Of other chunks another change may make it the owner
    // again: then it takes the parts that come.
    if (evaluation) answered_.insert(id);
    return true;
  });
}

void RoundOwner::give_up(int64_t update) {
  over_ = std::max(over_, update);
  chunks_.erase(chunks_.begin(), chunks_.lower_bound({over_ + 1, 0}));
  expected_.erase(expected_.begin(), expected_.upper_bound(over_));
}

void RoundOwner::expect(int64_t update, const ReplicaSet& replicas) {
  if (is_told_ && !closed({update, 0})) expected_.try_emplace(update, replicas);
}

// Copies of one sender arrive in order: one that has sent a later copy, or has left, sends this one
// no more.
bool RoundOwner::lacks_expected(int64_t update) const {
  const auto expected = expected_.find(update);
  const auto open = chunks_.find({update, 0});
  if (expected == expected_.end() || open == chunks_.end()) return false;
  const Chunk& chunk = open->second;
  const ReplicaSet there = awaited(update);
  return std::ranges::any_of(expected->second.members(), [&](ReplicaId replica) {
    if (chunk.weighted.contains(replica)) return false;
    return chunk.expired || chunk.arrived.contains(replica) || !there.contains(replica) ||
           newest_from_[static_cast<size_t>(replica.value)] > update;
  });
}

ReplicaSet RoundOwner::contributors(const ChunkId& id) const {
  return is_told_ ? expected_.at(id.round) : chunks_.at(id).weighted;
}

// Rounds up to this one can be forgotten: their parts are no longer accepted. Evaluations are
// numbered by updates and may be far apart: they are over once their only owner has passed them.
int64_t RoundOwner::newest_over() const {
  if (plan_.lane == Lane::kEvaluation) {
    return std::max(newest_from_[static_cast<size_t>(replica_.value)] - 1, over_);
  }
  return newest_closed_ - kRememberedRounds;
}

bool RoundOwner::closed(const ChunkId& id) const {
  if (chunks_.contains(id)) return false;
  return answered_.contains(id) || id.round <= newest_over();
}

bool RoundOwner::full(const ChunkId& id) const {
  // Where all are waited for, none is far ahead, and a copy that is refused would be missed.
  const bool few = plan_.lane == Lane::kEvaluation && plan_.deadline;
  const size_t most = few ? kEvaluationsOpenMax : kOpenMax;
  return chunks_.size() >= most && !plan_.replays && !chunks_.contains(id) && !closed(id);
}

void RoundOwner::deliver(Message message) {
  const ChunkId id = {message.index, message.chunk};
  if (message.kind == MessageKind::kDeadline) return expire(id);
  const ReplicaId from = message.from.replica;
  int64_t& newest = newest_from_[static_cast<size_t>(from.value)];
  newest = std::max(newest, id.round);
  heard_at_[static_cast<size_t>(from.value)] = ++received_;
  absent_.remove(from);
  const bool counts = message.replicas.contains(from);
  if (closed(id)) {
    late_ += counts ? 1 : 0;
    return;
  }
  const auto [entry, opened] = chunks_.try_emplace(id);
  Chunk& chunk = entry->second;
  if (opened) chunk.opened_at = received_;
  if (chunk.arrived.contains(from)) return;  // a duplicate
  chunk.arrived.add(from);
  if (!counts) return;
  chunk.weighted.add(from);
  chunk.stretch = std::max(chunk.stretch, message.stretch);
  chunk.parts.emplace(from.value, std::move(message.payload));
}

void RoundOwner::expire(const ChunkId& id) {
  const auto found = chunks_.find(id);
  if (found == chunks_.end()) return;
  Chunk& chunk = found->second;
  chunk.expired = true;
  for (int64_t r = 0; r < plan_.replicas; ++r) {
    const bool silent = heard_at_[static_cast<size_t>(r)] < chunk.opened_at;
    if (silent && !chunk.arrived.contains({r})) absent_.add({r});
  }
}

// One that has restarted since sends no copy of an update from before.
ReplicaSet RoundOwner::awaited(int64_t round) const {
  return plan_.lane == Lane::kEvaluation ? table_.members_at(round) : table_.members();
}

// An evaluation is of the same replicas on every stage: stage 0 decides, once its own copy is
// there, and the others wait for what it says.
bool RoundOwner::closable_evaluation(const ChunkId& id, const Chunk& chunk) const {
  if (is_told_) {
    const auto expected = expected_.find(id.round);
    return expected != expected_.end() && chunk.weighted.has_all(expected->second);
  }
  if (!chunk.arrived.contains(replica_)) return false;
  if (!plan_.evaluates_mean(id.round)) return true;  // no other replica sends anything
  // Without deadlines every copy comes, but for those that went to an evaluator that was lost.
  return chunk.expired || all_came_or_excused(id, chunk);
}

bool RoundOwner::closable(const ChunkId& id, const Chunk& chunk) const {
  if (plan_.lane == Lane::kEvaluation) return closable_evaluation(id, chunk);
  if (chunk.expired || chunk.arrived.has_all(table_.members())) return true;
  // After a change of members, a part may have gone to the owner before.
  return (plan_.deadline || table_.number() > 0) && all_came_or_excused(id, chunk);
}

bool RoundOwner::all_came_or_excused(const ChunkId& id, const Chunk& chunk) const {
  for (const ReplicaId replica : awaited(id.round)) {
    const bool moved_on = newest_from_[static_cast<size_t>(replica.value)] > id.round;
    const bool excused = moved_on || absent_.contains(replica);
    if (!chunk.arrived.contains(replica) && !excused) return false;
  }
  return true;
}

std::optional<RoundOwner::ChunkId> RoundOwner::to_reduce() const {
  for (const auto& [id, chunk] : chunks_) {
    if (closable(id, chunk)) return id;
  }
  return std::nullopt;
}

std::optional<RoundOwner::ChunkId> RoundOwner::to_await() const {
  if (!plan_.deadline) return std::nullopt;
  const bool evaluation = plan_.lane == Lane::kEvaluation;
  for (const auto& [id, chunk] : chunks_) {
    if (chunk.awaited) continue;
    const bool begun = is_told_ ? expected_.contains(id.round) : chunk.arrived.contains(replica_);
    if (!evaluation || begun) return id;
  }
  return std::nullopt;
}

bool RoundOwner::has(const ChunkId& id, const ReplicaSet& replicas) const {
  const auto chunk = chunks_.find(id);
  if (chunk == chunks_.end()) return false;
  for (const ReplicaId replica : replicas) {
    if (!chunk->second.weighted.contains(replica)) return false;
  }
  return true;
}

std::vector<at::Tensor> RoundOwner::contributions(const ChunkId& id,
                                                  const ReplicaSet& replicas) const {
  std::vector<at::Tensor> parts;
  for (const auto& [replica, part] : chunks_.at(id).parts) {
    if (replicas.contains({replica})) parts.push_back(part);
  }
  return parts;
}

void RoundOwner::reduced(const ChunkId& id, const ReplicaSet& replicas) {
  const auto node = chunks_.extract(id);
  LEEWAY_CHECK(!node.empty(), "a chunk is closed once");
  for (const ReplicaId replica : replicas) {
    LEEWAY_CHECK(node.mapped().weighted.contains(replica), "only parts that arrived are averaged");
  }
  // Parts that arrived after the mean was made came too late.
  const int64_t overtaken = node.mapped().weighted.size() - replicas.size();
  late_ += overtaken;
  const bool alone = plan_.lane == Lane::kEvaluation && !plan_.evaluates_mean(id.round);
  for (const ReplicaId member : alone ? ReplicaSet::of(replica_) : table_.members()) {
    missing_ += node.mapped().arrived.contains(member) ? 0 : 1;
  }
  missing_ += overtaken;
  answered_.insert(id);
  newest_closed_ = std::max(newest_closed_, id.round);
  expected_.erase(id.round);
  const int64_t over = newest_over();
  answered_.erase(answered_.begin(), answered_.lower_bound({over + 1, 0}));
}

}  // namespace leeway
