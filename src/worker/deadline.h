// How long an owner waits for the parts of a chunk, counted from the first.
#pragma once

#include <vector>

#include "base/replica_set.h"
#include "worker/lane.h"

namespace leeway {

// What an owner knows about the replicas of its stage.
struct FleetPace {
  std::vector<Nanos> update_times;  // by replica; zero: not known yet
  ReplicaSet absent = {};           // not waited for
  int64_t stretch = 1;              // factor on the interval (guard)
};

// A number in the recipe stays as it is. Otherwise two rounds of the slowest replica, so that one
// that is a whole round behind still counts; but no more than eight of a typical one, because a
// late mean is merged by all, and replicas of very different speed need not meet in every round. A
// replica that has not been heard of yet may be slow.
Nanos deadline_of(const LanePlan& plan, const FleetPace& pace);

}  // namespace leeway
