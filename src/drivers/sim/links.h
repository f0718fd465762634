// The network of a simulation: one link for each ordered pair of workers that talk. A link is
// reliable and in order, like TCP; only messages of different pairs overtake each other. Where
// machines have lines, all links of a machine share its line, first come, first served.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/link_trace.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

// Bytes of a message besides its payload: kind, addresses, counters, shape.
inline constexpr int64_t kHeaderBytes = 64;

struct LinkOptions {
  Nanos latency = {};
  double bytes_per_second = 0;       // 0: no limit
  Nanos jitter = {};                 // added to the latency: between 0 and this, drawn per message
  const LinkTrace* trace = nullptr;  // replaces bandwidth and latency; outlives the links
};

// A machine's connection to all others. 0: no limit.
struct LineOptions {
  double up_bytes_per_second = 0;
  double down_bytes_per_second = 0;
};

// Where workers run. Within a machine messages take no time; otherwise the sites of both ends
// select the link.
struct Places {
  std::vector<size_t> machine_of = {};  // by worker; empty: every worker has its own machine
  std::vector<LineOptions> lines = {};  // by machine
  std::vector<size_t> site_of = {};     // by machine
  size_t sites = 0;
  std::vector<LinkOptions> between = {};  // by the sender's site, then the receiver's
};

// The link from `from` to `to`, where it differs from the others.
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
    uint64_t seed = 0;  // for the jitter
    LinkOptions all = {};
    std::vector<LinkException> exceptions = {};
    Places places = {};  // if given, `all` is ignored
  };
  Links(const Mesh& mesh, Options options);

  // When a message sent now arrives. It waits until the link has taken the bytes of earlier
  // messages, occupies the link for its own, and then travels for latency plus jitter. The jitter
  // is a function of seed, from, to and the message's number on its link. If a message would
  // overtake an earlier one on the same link, both arrive together, in order.
  Nanos send(WorkerId from, WorkerId to, int64_t payload_bytes, Nanos now);

  // Links that were used, ordered by sender, then by receiver.
  std::vector<LinkStatistics> statistics() const;

 private:
  struct Link {
    WorkerId to;
    const LinkOptions* options = nullptr;
    bool inside = false;      // within a machine: uses no line
    Nanos free_at = {};       // when all bytes so far have left
    Nanos last_arrival = {};  // latest arrival so far
    int64_t messages = 0;
    int64_t payload_bytes = 0;
  };
  // When each direction of a machine's line has carried all bytes so far.
  struct Line {
    Nanos up_free_at = {};
    Nanos down_free_at = {};
  };
  // When the first and the last byte leave.
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
