// ZeroMQ's sockets, and nothing that could be decided without them: one ROUTER that others dial, a
// DEALER for each process that this one dials, and who is let in. Used by one thread.
#pragma once

#include <zmq.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "drivers/zmq/keys.h"
#include "drivers/zmq/link.h"

namespace leeway::zmq {

struct SocketOptions {
  std::string listen;           // tcp://*:0; empty: nobody can dial this process
  std::optional<KeyPair> keys;  // none: plain text
  // Whether one with this key may connect; called while polling. The name of a connection proves
  // nothing, its key does.
  std::function<bool(const std::string& key)> allows = {};
};

// Where a frame came from, and where an answer goes: a process that this one has dialed, or a
// connection to the ROUTER.
struct Route {
  std::optional<ProcessId> dialed = {};
  std::string connection = {};
  bool operator==(const Route&) const = default;
};

struct Arrival {
  Route route;
  std::string key;   // of the one that dialed this process; empty: plain text, or dialed from here
  std::string host;  // likewise
  ::zmq::message_t header;
  ::zmq::message_t fragment;
  bool whole = true;  // false: it has parts that no frame has
};

struct Change {
  enum class Kind {
    kConnected,
    kDisconnected,
    kRefused,      // the other side does not let this process's key in; ZeroMQ gives up then
    kClosedEarly,  // during the handshake: perhaps it has another key
  };
  ProcessId dialed;
  Kind kind;
};

class Sockets {
 public:
  // An address that cannot be bound is an error that says why.
  static Result<std::unique_ptr<Sockets>> open(SocketOptions options);

  const std::string& address() const { return address_; }  // with its port; empty: not listening

  // With a new socket. An address that makes no sense is an error. One that nobody answers at is
  // dialed again and again.
  Status dial(ProcessId peer, const std::string& address, const std::string& key);
  void hang_up(ProcessId peer);
  // False: the connection is gone.
  bool send(const Route& route, const OutgoingFrame& frame);
  // Waits for something to arrive or change, or for `wake` to be readable.
  struct News {
    std::vector<Arrival> arrivals;
    std::vector<Change> changes;
    std::vector<std::string> refusals;  // a sentence for each that was not let in
    bool empty() const { return arrivals.empty() && changes.empty() && refusals.empty(); }
  };
  News poll(Nanos at_most, int wake);
  // The last frames still leave.
  void close();

 private:
  // A socket's descriptor becomes readable once, and any call may use that up: then only an attempt
  // to read tells whether there is something. Asking ZeroMQ itself about every socket (zmq_poll)
  // takes two or more system calls for each of them, and a process has two for each other one.
  struct Watched {
    ::zmq::socket_t socket;
    bool may_have = true;  // something to read
  };
  struct Dialed {
    Watched line;
    Watched monitor;
  };
  explicit Sockets(SocketOptions options);
  Status listen();
  Dialed connected(const std::string& address, const std::string& key);
  // The other end of what ZeroMQ says about a socket.
  ::zmq::socket_t monitor_of(::zmq::socket_t& socket, int events);
  std::vector<Watched*> watched();
  void read(News& news);
  void answer_door(News& news);
  void read_router_monitor(News& news);
  void receive(Watched& from, std::optional<ProcessId> dialed, News& news);
  void read_monitor(ProcessId peer, Watched& monitor, News& news) const;

  SocketOptions options_;
  std::string address_;
  ::zmq::context_t context_{1};
  std::optional<Watched> door_;  // asks who may connect (ZAP)
  std::optional<Watched> router_;
  std::optional<Watched> router_monitor_;
  uint64_t monitors_ = 0;
  std::map<ProcessId, Dialed> dialed_;
};

}  // namespace leeway::zmq
