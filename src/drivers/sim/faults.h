// What goes wrong in a simulation besides slowness: messages that are lost, doubled or overtaken,
// and workers that leave for good.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/busy_intervals.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

// A link that is down for a while: messages sent in that window are lost, not late.
struct LinkOutage {
  WorkerId from;
  WorkerId to;
  Window window;
};
// Both directions between this worker and the workers of its stage in all other replicas. Nothing
// is ever lost within a replica: a pipeline cannot continue after losing a message.
std::vector<LinkOutage> cut_off(const Mesh& mesh, WorkerId worker, const Window& window);

// From `at` on the worker starts nothing, finishes nothing, and receives nothing; messages it has
// already sent still arrive. The rest of its replica stalls until another one fills its place, and
// is not waited for.
struct Departure {
  WorkerId worker;
  Nanos at;
};
// Another worker fills the place of one that has left, with what that one had on its disk or
// without.
struct Return {
  WorkerId worker;
  Nanos at;
  bool with_disk = false;
};

// All stages of the replica leave at once.
std::vector<Departure> departures_of(const Mesh& mesh, ReplicaId replica, Nanos at);

// What a network does to single messages. Nothing within a replica is ever lost, and messages of
// one class on one link stay in order.
struct MessageFaults {
  uint64_t seed = 0;
  double twice = 0;            // share of messages that arrive a second time, soon after
  double lost = 0;             // share of those between replicas and with the coordinator
  Nanos class_jitter = {};     // up to this much later than other classes on the same link
  bool through_bytes = false;  // every message is serialized and read back
};

class Faults {
 public:
  Faults(const Mesh& mesh, const std::vector<LinkOutage>& outages,
         const std::vector<Departure>& departures);

  void depart(const Departure& departure);
  void come_back(WorkerId worker, Nanos now);
  bool is_lost(WorkerId from, WorkerId to, Nanos sent_at) const;
  bool is_gone(size_t worker, Nanos now) const;
  // At least one worker of the replica is gone.
  bool is_stranded(ReplicaId replica, Nanos now) const;

 private:
  Mesh mesh_;
  std::vector<LinkOutage> outages_;
  std::vector<std::vector<Nanos>> gone_at_;  // by worker, ascending: departures
};

}  // namespace leeway::sim
