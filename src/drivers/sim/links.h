// The network of a simulation: one link for each ordered pair of workers that speak. A link is
// reliable and in order, as TCP is; only messages of different pairs overtake each other. Where
// machines have lines of their own, all links of a machine share them, first come, first served.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/link_trace.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

// What a message takes on a link beside its payload: kind, addresses, counters, shape.
inline constexpr int64_t kHeaderBytes = 64;

struct LinkOptions {
  Nanos latency = {};
  double bytes_per_second = 0;  // 0: no limit
  Nanos jitter = {};            // up to so much is added to the latency, drawn for every message
  const LinkTrace* trace = nullptr;  // in place of bandwidth and latency; outlives the links
};

// A machine's way to all others. 0: no limit.
struct LineOptions {
  double up_bytes_per_second = 0;
  double down_bytes_per_second = 0;
};

// Where workers stand. Within a machine messages take no time; links are by the sites of both ends.
struct Places {
  std::vector<size_t> machine_of = {};  // by worker; empty: every worker has a machine of its own
  std::vector<LineOptions> lines = {};  // by machine
  std::vector<size_t> site_of = {};     // by machine
  size_t sites = 0;
  std::vector<LinkOptions> between = {};  // by site of the sender, then by site of the receiver
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
    Places places = {};  // where there are any, `all` is not looked at
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
    bool inside = false;      // a machine: its lines are not used
    Nanos free_at = {};       // all bytes so far are on their way
    Nanos last_arrival = {};  // of all messages so far
    int64_t messages = 0;
    int64_t payload_bytes = 0;
  };
  // When each way of a machine's line has done with the bytes so far.
  struct Line {
    Nanos up_free_at = {};
    Nanos down_free_at = {};
  };
  // From the first byte's leaving to the last one's.
  struct Passage {
    Nanos begin;
    Nanos end;
  };
  Passage pass_link(Link& on, int64_t bytes, Nanos now) const;
  void pass_up(size_t machine, int64_t bytes, Nanos now, Passage& passage);
  Nanos pass_down(size_t machine, int64_t bytes, Nanos flight, const Passage& passage);
  bool has_places() const { return !options_.places.machine_of.empty(); }
  size_t machine_of(WorkerId worker) const {
    return options_.places.machine_of[mesh_.index(worker)];
  }
  Link& link(WorkerId from, WorkerId to);
  const LinkOptions& options_of(WorkerId from, WorkerId to) const;
  Nanos jitter(WorkerId from, const Link& link) const;

  Mesh mesh_;
  Options options_;
  std::vector<std::vector<Link>> by_sender_;  // each ascending by receiver: most have two or three
  std::vector<Line> lines_;                   // by machine
};

}  // namespace leeway::sim
