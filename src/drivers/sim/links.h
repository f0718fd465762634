// The network of a simulation: one link for each ordered pair of workers that speak. A link is
// reliable and in order, as TCP is; only messages of different pairs overtake each other.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

// What a message takes on a link beside its payload: kind, addresses, counters, shape.
inline constexpr int64_t kHeaderBytes = 64;

struct LinkOptions {
  Nanos latency = {};
  double bytes_per_second = 0;  // 0: no limit
  Nanos jitter = {};            // up to so much is added to the latency, drawn for every message
};

// The one link from `from` to `to`, where it differs from the others.
struct LinkException {
  WorkerId from;
  WorkerId to;
  LinkOptions options;
};

struct LinkStatistics {
  WorkerId from;
  WorkerId to;
  int64_t messages = 0;
  int64_t payload_bytes = 0;
};

class Links {
 public:
  struct Options {
    uint64_t seed = 0;  // of the jitter
    LinkOptions all = {};
    std::vector<LinkException> exceptions = {};
  };
  Links(const Mesh& mesh, Options options);

  // When a message that is sent now arrives. It waits until the link has taken the bytes of those
  // before it, occupies the link for its own, and is then on its way for latency and jitter. The
  // jitter is a function of seed, from, to and the message's number on its link; where it would
  // bring a message in before an earlier one of the same link, both arrive together, in order.
  Nanos send(WorkerId from, WorkerId to, int64_t payload_bytes, Nanos now);

  // Links that were used, by sender, then by receiver.
  std::vector<LinkStatistics> statistics() const;

 private:
  struct Link {
    WorkerId to;
    const LinkOptions* options = nullptr;
    Nanos free_at = {};       // all bytes so far are on their way
    Nanos last_arrival = {};  // of all messages so far
    int64_t messages = 0;
    int64_t payload_bytes = 0;
  };
  Link& link(WorkerId from, WorkerId to);
  const LinkOptions& options_of(WorkerId from, WorkerId to) const;
  Nanos jitter(WorkerId from, const Link& link) const;

  Mesh mesh_;
  Options options_;
  std::vector<std::vector<Link>> by_sender_;  // each ascending by receiver: most have two or three
};

}  // namespace leeway::sim
