#include "run/shard_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace leeway {
namespace {

bool same_shard(const ShardSaved& a, const ShardSaved& b) {
  return a.worker == b.worker && a.update == b.update && a.hash == b.hash;
}

}  // namespace

bool ShardLedger::has_replica(const Set& set, int64_t replica) const {
  const auto begin = set.lower_bound({{replica}, {0}});
  const auto end = set.lower_bound({{replica + 1}, {0}});
  if (std::distance(begin, end) != stages_) return false;
  const int64_t update = begin->second.update;
  return std::all_of(begin, end, [&](const auto& of) { return of.second.update == update; });
}

std::optional<ShardLedger::Counting> ShardLedger::counting(
    std::map<int64_t, Set>::const_iterator at) const {
  const auto is_last = [](const auto& of) { return of.second.last; };
  // Where a session ends, replicas that are ahead have more to give than a checkpoint on the way.
  const bool ends = std::ranges::any_of(at->second, is_last);
  const auto end = together_ ? std::next(at) : sets_.end();
  Counting found = {.checkpoint = at->first, .shards = {}};
  bool has_own = false;
  for (const ReplicaId member : members_) {
    const int64_t replica = member.value;
    const auto from = std::find_if(at, end, [&](const auto& later) {
      if (!has_replica(later.second, replica)) return false;
      return !ends || later.second.at({{replica}, {0}}).last;
    });
    if (from == end) continue;
    has_own = has_own || from == at;
    for (auto of = from->second.lower_bound({{replica}, {0}});
         of != from->second.lower_bound({{replica + 1}, {0}}); ++of) {
      found.shards.push_back(of->second);
    }
  }
  return has_own ? std::optional(std::move(found)) : std::nullopt;
}

bool ShardLedger::has_all(const Counting& found) const {
  return std::ssize(found.shards) == members_.size() * stages_;
}

std::optional<ShardLedger::Counting> ShardLedger::count(std::optional<Counting> found) {
  if (!found) return std::nullopt;
  const bool known = found->checkpoint == newest_.checkpoint &&
                     std::ranges::all_of(found->shards, [&](const ShardSaved& shard) {
                       return std::ranges::any_of(
                           newest_.shards, [&](const auto& b) { return same_shard(shard, b); });
                     });
  // Of one from before, those that are there may not have told all that it has.
  const bool lacks =
      found->checkpoint == newest_.checkpoint &&
      std::ranges::any_of(newest_.shards, [&](const ShardSaved& shard) {
        return members_.contains(shard.worker.replica) &&
               std::ranges::count(found->shards, shard.worker, &ShardSaved::worker) == 0;
      });
  if (known || lacks) return std::nullopt;
  newest_ = *found;
  for (auto at = sets_.begin(); at != sets_.lower_bound(newest_.checkpoint); ++at) {
    std::erase_if(at->second, [this](const auto& of) {
      if (!of.second.last) drop(of.second);
      return !of.second.last;
    });
  }
  std::erase_if(sets_, [](const auto& of) { return of.second.empty(); });
  return found;
}

std::optional<ShardLedger::Counting> ShardLedger::add(const ShardSaved& saved) {
  const bool late = saved.checkpoint < newest_.checkpoint && !saved.last;
  if (late || !members_.contains(saved.worker.replica)) {
    drop(saved);
    return std::nullopt;
  }
  std::erase(needless_, saved.file);  // it may have been saved again, under the same name
  sets_[saved.checkpoint].insert_or_assign(saved.worker, saved);
  std::optional<Counting> best;
  for (auto at = std::next(sets_.find(saved.checkpoint)); at != sets_.begin();) {
    std::optional<Counting> found = counting(--at);
    if (!found || (at->first < newest_.checkpoint && !has_all(*found))) continue;
    const bool has_it = std::ranges::any_of(
        found->shards, [&](const ShardSaved& shard) { return same_shard(shard, saved); });
    if (has_it && (!best || found->shards.size() > best->shards.size())) best = std::move(found);
  }
  return count(std::move(best));
}

std::optional<ShardLedger::Counting> ShardLedger::wait_for(const ReplicaSet& members) {
  members_ = members;
  for (auto& [checkpoint, set] : sets_) {
    std::erase_if(set, [&](const auto& of) {
      const bool leaves = !members.contains(of.first.replica);
      if (leaves) drop(of.second);
      return leaves;
    });
  }
  std::erase_if(sets_, [](const auto& of) { return of.second.empty(); });
  for (auto at = sets_.end(); at != sets_.begin();) {
    const std::optional<Counting> found = counting(--at);
    if (found && has_all(*found)) return count(found);
  }
  return std::nullopt;
}

std::vector<std::string> ShardLedger::take_needless() { return std::exchange(needless_, {}); }

}  // namespace leeway
