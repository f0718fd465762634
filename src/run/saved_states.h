// What workers have saved, until there is a whole checkpoint of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/replica_set.h"
#include "worker/outbox.h"

namespace leeway {

class SavedStates {
 public:
  SavedStates(int64_t stages, const ReplicaSet& members) : stages_(stages), members_(members) {}

  // Returns the newest checkpoint that this state makes whole, in the order of workers. A replica
  // that has nothing for a checkpoint, because it was past it or stopped elsewhere, gives what it
  // saved next: replicas that do not wait for each other may be at different updates.
  std::optional<std::vector<StageState>> add(StageState state);
  // Only these replicas are waited for from now on: what may have become whole with that.
  std::optional<std::vector<StageState>> wait_for(const ReplicaSet& members);

 private:
  using Set = std::map<WorkerId, StageState>;
  bool has_replica(const Set& set, int64_t replica) const;
  std::optional<Set> whole(std::map<int64_t, Set>::const_iterator at) const;
  std::vector<StageState> take(Set&& set);

  int64_t stages_;
  ReplicaSet members_;
  std::map<int64_t, Set> sets_;  // by checkpoint
};

}  // namespace leeway
