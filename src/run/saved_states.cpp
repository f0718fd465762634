#include "run/saved_states.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace leeway {

bool SavedStates::has_replica(const Set& set, int64_t replica) const {
  const auto begin = set.lower_bound({{replica}, {0}});
  const auto end = set.lower_bound({{replica + 1}, {0}});
  if (std::distance(begin, end) != stages_) return false;
  const int64_t update = begin->second.update;
  return std::all_of(begin, end, [&](const auto& of) { return of.second.update == update; });
}

std::optional<SavedStates::Set> SavedStates::whole(
    std::map<int64_t, Set>::const_iterator at) const {
  const auto is_last = [](const auto& of) { return of.second.last; };
  // Where a session ends, replicas that are ahead have more to give than a checkpoint on the way.
  const bool ends = std::ranges::any_of(at->second, is_last);
  Set set;
  for (const ReplicaId member : members_) {
    const int64_t replica = member.value;
    const auto from = std::find_if(at, sets_.end(), [&](const auto& later) {
      if (!has_replica(later.second, replica)) return false;
      return !ends || later.second.at({{replica}, {0}}).last;
    });
    if (from == sets_.end()) return std::nullopt;
    set.insert(from->second.lower_bound({{replica}, {0}}),
               from->second.lower_bound({{replica + 1}, {0}}));
  }
  return set;
}

// States older than all of these are no longer needed.
std::vector<StageState> SavedStates::take(Set&& set) {
  int64_t oldest = INT64_MAX;
  std::vector<StageState> states;
  for (auto& [worker, state] : set) {
    oldest = std::min(oldest, state.update);
    states.push_back(std::move(state));
  }
  for (auto& [checkpoint, kept] : sets_)
    std::erase_if(kept, [&](const auto& of) { return of.second.update <= oldest; });
  std::erase_if(sets_, [](const auto& of) { return of.second.empty(); });
  return states;
}

std::optional<std::vector<StageState>> SavedStates::wait_for(const ReplicaSet& members) {
  members_ = members;
  if (members.empty()) return std::nullopt;
  for (auto& [checkpoint, set] : sets_) {
    std::erase_if(set, [&](const auto& of) { return !members.contains(of.first.replica); });
  }
  std::erase_if(sets_, [](const auto& of) { return of.second.empty(); });
  for (auto at = sets_.end(); at != sets_.begin();) {
    if (std::optional<Set> set = whole(--at)) return take(std::move(*set));
  }
  return std::nullopt;
}

std::optional<std::vector<StageState>> SavedStates::add(StageState state) {
  const WorkerId worker = state.worker;
  if (!members_.contains(worker.replica)) return std::nullopt;
  const int64_t checkpoint = state.checkpoint;
  sets_[checkpoint].insert_or_assign(worker, std::move(state));
  for (auto at = std::next(sets_.find(checkpoint)); at != sets_.begin();) {
    --at;
    std::optional<Set> set = whole(at);
    // Without the new state it is a checkpoint that has been written before.
    const bool newer = set && set->at(worker).checkpoint == checkpoint;
    if (newer) return take(std::move(*set));
  }
  return std::nullopt;
}

}  // namespace leeway
