#include "drivers/loop/planned_faults.h"

#include <utility>

namespace leeway {

PlannedFaults::PlannedFaults(std::vector<PlannedFault> planned, int64_t first_update)
    : planned_(std::move(planned)) {
  std::erase_if(planned_, [&](const PlannedFault& fault) { return fault.update <= first_update; });
}

// Replicas need not be at the same update: one that is to come back may be yet to be lost.
bool PlannedFaults::is_due(const PlannedFault& fault, ReplicaId replica, int64_t update) const {
  if (update < fault.update) return false;
  switch (fault.kind) {
    case PlannedFault::Kind::kLose:
    case PlannedFault::Kind::kLeave:
      return replica == fault.replica;
    case PlannedFault::Kind::kReturn:
      return away_.contains(fault.replica);
    case PlannedFault::Kind::kCoordinatorLost:
      return true;
  }
  return false;
}

std::vector<PlannedFault> PlannedFaults::take_due(ReplicaId replica, int64_t update) {
  std::vector<PlannedFault> due;
  for (auto fault = planned_.begin(); fault != planned_.end();) {
    if (!is_due(*fault, replica, update)) {
      ++fault;
      continue;
    }
    if (fault->kind == PlannedFault::Kind::kReturn) {
      away_.erase(fault->replica);
    } else if (fault->kind != PlannedFault::Kind::kCoordinatorLost) {
      away_.insert(fault->replica);
    }
    due.push_back(*fault);
    fault = planned_.erase(fault);
  }
  return due;
}

}  // namespace leeway
