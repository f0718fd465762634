// What goes wrong in a simulation beside slowness: messages that are lost, and workers that are
// gone for good.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/busy_intervals.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

// A link that is down for a while: what is sent in it is lost, not late.
struct LinkOutage {
  WorkerId from;
  WorkerId to;
  Window window;
};
// Both ways between this worker and those of its stage in all other replicas. Within a replica
// nothing is ever lost: a pipeline that misses a message has no way to go on.
std::vector<LinkOutage> cut_off(const Mesh& mesh, WorkerId worker, const Window& window);

// From a moment on the worker starts nothing and finishes nothing, and all that is sent to it is
// lost; what it sent before is on its way. The rest of its replica stands still for want of it, and
// is not waited for.
struct Departure {
  WorkerId worker;
  Nanos at;
};
// Of all stages at once.
std::vector<Departure> departures_of(const Mesh& mesh, ReplicaId replica, Nanos at);

class Faults {
 public:
  Faults(const Mesh& mesh, const std::vector<LinkOutage>& outages,
         const std::vector<Departure>& departures);

  bool is_lost(WorkerId from, WorkerId to, Nanos sent_at) const;
  bool is_gone(size_t worker, Nanos now) const;
  // Some worker of the replica is gone.
  bool is_stranded(ReplicaId replica, Nanos now) const;

 private:
  std::vector<LinkOutage> outages_;
  std::vector<std::optional<Nanos>> gone_at_;      // by worker
  std::vector<std::optional<Nanos>> stranded_at_;  // by replica: the first of its departures
};

}  // namespace leeway::sim
