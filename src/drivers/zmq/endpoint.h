// A process's end of all its links over TCP: a Post on ZeroMQ with one thread of its own. It finds
// the others, keeps the connections to them, and takes frames only from those that it knows: by the
// key of a connection, not by what a frame says.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "drivers/loop/post.h"
#include "drivers/zmq/address.h"
#include "drivers/zmq/keys.h"
#include "drivers/zmq/line.h"
#include "drivers/zmq/link.h"
#include "drivers/zmq/name_lookups.h"

namespace leeway::zmq {

// Another process, and how to reach it.
struct Peer {
  ProcessId id;
  std::string address = {};  // tcp://HOST:PORT
  std::string key = {};      // its public key; empty: plain text
  bool dial = false;         // false: it dials this process
};

struct EndpointOptions {
  ProcessId self;
  std::string listen = "tcp://*:0";  // empty: it dials all others
  std::optional<KeyPair> keys = {};  // none: plain text
  // The host's: who may come that is not a peer yet. Called on the endpoint's thread.
  std::function<bool(const std::string& key)> allows = {};
  bool takes_visitors = false;  // one that is not a peer may say hello, and becomes one
  Nanos heartbeat = {500'000'000};
  int64_t silent_beats = 4;                 // without a sign of life for so long, a peer is silent
  LineOptions line = {};                    // of each link
  NameLookups::Resolve resolve = resolved;  // names of hosts that it dials; it may take long
  const Clock& clock;
  Post::Handlers handlers;
};

class Endpoint : public Post {
 public:
  // An error: the address is not to be had, or this build has no ZeroMQ.
  static Result<std::unique_ptr<Endpoint>> open(EndpointOptions options);

  // From any thread:
  virtual const std::string& address() const = 0;  // where it listens
  // All peers from now on, but for visitors: links to others end, and what they send is refused.
  virtual void set_peers(std::vector<Peer> peers) = 0;
  // How fast the lines are, and how often a sign of life is due, from now on.
  virtual void shape(const LineOptions& line, Nanos heartbeat) = 0;
  // A peer or visitor is not known any more.
  virtual void forget(ProcessId peer) = 0;
  // Who a visitor is: the key that it came with (empty: plain text) and the host.
  struct Visitor {
    std::string key;
    std::string host;
  };
  virtual std::optional<Visitor> visitor(ProcessId id) const = 0;
  virtual Heard heard() const = 0;
  // Bytes of frames, over all links, since the beginning.
  virtual LinkCounts counts() const = 0;
};

}  // namespace leeway::zmq
