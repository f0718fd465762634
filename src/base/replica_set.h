// A set of replicas, for example those that took part in a round.
#pragma once

#include <bitset>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace leeway {

class ReplicaSet {
 public:
  static constexpr int64_t kReplicasMax = 256;

  ReplicaSet() = default;
  static ReplicaSet of(ReplicaId replica) {
    ReplicaSet set;
    set.add(replica);
    return set;
  }
  void add(ReplicaId replica) { bits_.set(at(replica)); }
  void remove(ReplicaId replica) { bits_.reset(at(replica)); }
  bool contains(ReplicaId replica) const { return bits_.test(at(replica)); }
  bool empty() const { return bits_.none(); }
  int64_t size() const { return static_cast<int64_t>(bits_.count()); }
  // The member at this place in ascending order; `place` is below size().
  ReplicaId member(int64_t place) const {
    LEEWAY_CHECK(place >= 0 && place < size(), "a place among the members");
    int64_t replica = 0;
    while (!contains({replica}) || place-- > 0) ++replica;
    return {replica};
  }
  // Ascending.
  std::vector<ReplicaId> members() const {
    std::vector<ReplicaId> members;
    for (int64_t r = 0; r < kReplicasMax; ++r) {
      if (contains({r})) members.push_back({r});
    }
    return members;
  }
  bool operator==(const ReplicaSet&) const = default;

 private:
  static size_t at(ReplicaId replica) {
    LEEWAY_CHECK(replica.value >= 0 && replica.value < kReplicasMax, "replica id out of range");
    return static_cast<size_t>(replica.value);
  }
  std::bitset<kReplicasMax> bits_;
};

}  // namespace leeway
