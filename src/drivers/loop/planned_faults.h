// What goes wrong on purpose, planned by update and not by time, so that it is the same story under
// every driver.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/ids.h"

namespace leeway {

// When stage 0 of the replica has made the update; or, if the replica is away or it is the
// coordinator's, stage 0 of any.
struct PlannedFault {
  enum class Kind { kLose, kLeave, kReturn, kCoordinatorLost };
  Kind kind = Kind::kLose;
  ReplicaId replica = {};
  int64_t update = 0;
  bool with_disk = false;  // kReturn
};

class PlannedFaults {
 public:
  // What was planned for updates before the session has happened in an earlier one.
  PlannedFaults(std::vector<PlannedFault> planned, int64_t first_update);

  // Stage 0 of this replica has made this update: what happens now. Each happens once.
  std::vector<PlannedFault> take_due(ReplicaId replica, int64_t update);

 private:
  bool is_due(const PlannedFault& fault, ReplicaId replica, int64_t update) const;

  std::vector<PlannedFault> planned_;
  std::set<ReplicaId> away_;
};

}  // namespace leeway
