// The endpoint's thread: what arrives goes to the link that it belongs to, what links have to say
// goes out, and connections that broke are greeted anew.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "drivers/zmq/endpoint.h"
#include "drivers/zmq/sockets.h"

namespace leeway::zmq {

class Exchange final : public Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> open(EndpointOptions options);
  ~Exchange() override;

  void send(ProcessId to, Parcel parcel) override;
  void close() override;
  const std::string& address() const override { return address_; }
  void set_peers(std::vector<Peer> peers) override;
  void shape(const LineOptions& line, Nanos heartbeat) override;
  void forget(ProcessId peer) override;
  std::optional<Visitor> visitor(ProcessId id) const override;
  Heard heard() const override;
  LinkCounts counts() const override;

 private:
  static constexpr Nanos kPatienceMin = {1'000'000'000};
  // A frame on an emulated line comes out at its time.
  struct Delayed {
    Nanos due;
    OutgoingFrame frame;
  };
  struct Correspondent {
    Peer peer;
    Link link;
    Line line;
    bool visits = false;
    std::optional<Route> route = {};  // where frames go; none: no connection, or not greeted yet
    std::deque<Delayed> delayed = {};
    Nanos since = {};               // that this process tries to reach it, or waits for it
    Nanos greeted_at = {};          // when it was last said hello
    Nanos redial_at = {};           // unless there is a route by then
    Nanos patience = kPatienceMin;  // with the next attempt to reach it
    size_t dials = 0;
    std::optional<uint64_t> lookup = {};  // of its name, that is waited for
    bool connected = false;
    bool silent = false;
    int64_t early_closes = 0;  // of connections, during the handshake, one after the other
    // Once for each time that it is so:
    bool told_unreachable = false;
    bool told_key_refused = false;
    bool told_forgotten = false;
  };
  struct Letter {
    ProcessId to;
    Parcel parcel;
  };
  struct Peers {
    std::vector<Peer> peers;
  };
  struct Forget {
    ProcessId peer;
  };
  struct Shape {
    LineOptions line;
    Nanos heartbeat;
  };
  using Order = std::variant<Letter, Peers, Forget, Shape>;

  Exchange(EndpointOptions options, std::unique_ptr<Sockets> sockets, int wake);
  void give(Order order);
  void wake() const;

  // On its own thread:
  void work();
  void carry_out(Letter& letter);
  void carry_out(Peers& peers);
  void carry_out(const Forget& forgotten);
  void carry_out(const Shape& shape);
  LineOptions line_to(ProcessId peer) const;
  bool take_orders();
  Correspondent& add(const Peer& peer, bool visits, Nanos now);
  void drop(ProcessId peer);
  void dial(Correspondent& with, Nanos now);
  void dial_at(Correspondent& with, const Result<std::string>& address);
  void dial_those_found();
  void redial(Correspondent& with, Nanos now);
  void tell_unreachable(Correspondent& with);
  void look_after(Correspondent& with, Nanos now);
  void greet(Correspondent& with, FrameKind kind, const Route& route, Nanos now);
  void pump(Correspondent& with, Nanos now);
  void transmit(Correspondent& with, const OutgoingFrame& frame);
  void disconnect(Correspondent& with);
  Nanos next_due(Nanos now) const;
  void receive(Arrival& arrival, Nanos now);
  void route_by(Correspondent& with, const FrameHeader& header, const Arrival& arrival, Nanos now);
  Correspondent* sender_of(const FrameHeader& header, const Arrival& arrival, Nanos now);
  Correspondent* welcome_visitor(const FrameHeader& header, const Arrival& arrival, Nanos now);
  void answer_unknown(const FrameHeader& header, const Route& route, Nanos now);
  void change(const Change& change, Nanos now);
  void refuse(const std::string& sentence) const;
  void refuse(const Arrival& arrival, const std::string& why) const;
  bool drained(Nanos now) const;
  void count();
  void note_heard(Nanos now);

  EndpointOptions options_;  // its line and heartbeat: of its own thread
  const std::string address_;
  int wake_ = -1;  // an eventfd: readable when there are orders

  mutable std::mutex mutex_;
  std::vector<Order> orders_;
  bool closing_ = false;
  std::map<ProcessId, Visitor> visitors_;
  LinkCounts counts_;
  Heard heard_;

  // Of its own thread:
  std::unique_ptr<Sockets> sockets_;
  std::map<ProcessId, Correspondent> correspondents_;
  LinkCounts ended_;  // of links that are gone
  NameLookups lookups_;
  uint64_t generations_ = 0;
  std::optional<Nanos> looked_at_;  // when it last looked after its links
  std::thread thread_;
};

}  // namespace leeway::zmq
