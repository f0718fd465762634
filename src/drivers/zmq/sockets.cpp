#if LEEWAY_ZMQ
#include "drivers/zmq/sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "drivers/zmq/address.h"

namespace leeway::zmq {
namespace {

constexpr int kBatch = 64;  // frames that are read before others have their turn
constexpr int kLastFramesMs = 500;
constexpr size_t kKeyBytes = 32;

using ::zmq::message_t;
using ::zmq::socket_t;

void release(void*, void* hint) {
  delete static_cast<std::shared_ptr<const std::vector<std::byte>>*>(hint);
}

// The fragment is not copied: the message keeps the buffer, and nobody writes there.
message_t message_of(const OutgoingFrame& frame, bool copies) {
  const std::span<const std::byte> fragment = frame.fragment();
  if (copies || fragment.empty()) return {fragment.data(), fragment.size()};
  auto* const hint = new std::shared_ptr<const std::vector<std::byte>>(frame.buffer);
  return {const_cast<std::byte*>(fragment.data()), fragment.size(), release, hint};
}

std::string property_of(message_t& message, const char* name) {
  const char* const value = zmq_msg_gets(message.handle(), name);
  return value == nullptr ? "" : value;
}

std::string z85_of(const message_t& key) {
  std::array<char, 41> text = {};
  if (key.size() != kKeyBytes) return "";
  zmq_z85_encode(text.data(), key.data<uint8_t>(), kKeyBytes);
  return text.data();
}

// HWM 0: a ROUTER at its mark drops without a word; how much is under way is limited by the links.
void set_options(socket_t& socket, bool ipv6) {
  socket.set(::zmq::sockopt::linger, 0);
  socket.set(::zmq::sockopt::sndhwm, 0);
  socket.set(::zmq::sockopt::rcvhwm, 0);
  socket.set(::zmq::sockopt::ipv6, ipv6);
  socket.set(::zmq::sockopt::maxmsgsize,
             static_cast<int64_t>(kFragmentBytes + sizeof(FrameHeader)));
}

// The number of the next event; none: there is no more.
std::optional<uint16_t> next_event(socket_t& monitor) {
  message_t event;
  message_t address;
  if (!monitor.recv(event, ::zmq::recv_flags::dontwait)) return std::nullopt;
  if (event.more()) static_cast<void>(monitor.recv(address));
  uint16_t number = 0;
  LEEWAY_CHECK(event.size() >= sizeof number, "ZeroMQ's own events have a number");
  std::memcpy(&number, event.data(), sizeof number);
  return number;
}

}  // namespace

// A connection takes three sockets and four descriptors, and a process may have one to each other.
Sockets::Sockets(SocketOptions options) : options_(std::move(options)) {
  constexpr int kSocketsMax = 16'384;
  context_.set(::zmq::ctxopt::max_sockets, kSocketsMax);
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
  }
}

Result<std::unique_ptr<Sockets>> Sockets::open(SocketOptions options) {
  std::unique_ptr<Sockets> sockets(new Sockets(std::move(options)));
  LEEWAY_TRY(sockets->listen());
  return sockets;
}

// Names are never used again: ZeroMQ closes a monitor's socket later, on a thread of its own.
socket_t Sockets::monitor_of(socket_t& socket, int events) {
  const std::string name = fmt::format("inproc://monitor-{}", ++monitors_);
  if (zmq_socket_monitor(socket.handle(), name.c_str(), events) != 0) throw ::zmq::error_t();
  socket_t monitor(context_, ::zmq::socket_type::pair);
  monitor.set(::zmq::sockopt::linger, 0);
  monitor.set(::zmq::sockopt::rcvhwm, 0);  // at its mark ZeroMQ's own thread would stand still
  monitor.connect(name);
  return monitor;
}

Status Sockets::listen() {
  if (options_.listen.empty()) return {};
  door_.emplace(Watched{socket_t(context_, ::zmq::socket_type::rep)});
  door_->socket.bind("inproc://zeromq.zap.01");
  router_.emplace(Watched{socket_t(context_, ::zmq::socket_type::router)});
  socket_t& router = router_->socket;
  // An IPv4 address that a socket of IPv6 binds is written in another way than it was given.
  set_options(router, /*ipv6=*/!is_ipv4(host_of(options_.listen)));
  router.set(::zmq::sockopt::router_mandatory, true);
  if (options_.keys) {
    router.set(::zmq::sockopt::curve_server, true);
    router.set(::zmq::sockopt::curve_secretkey, options_.keys->secret_key);
  }
  // In plain text too: a socket with a door refuses the first versions of ZeroMQ's protocol, which
  // any bytes are taken for, and one of whose messages aborts libzmq 4.3.4 if it comes during
  // close.
  router.set(::zmq::sockopt::zap_domain, "leeway");
  router_monitor_.emplace(Watched{monitor_of(
      router, ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)});
  try {
    router.bind(options_.listen);
  } catch (const ::zmq::error_t& error) {
    return Error{fmt::format("cannot listen at {}: {}; choose another address or port",
                             options_.listen, error.what())};
  }
  address_ = router.get(::zmq::sockopt::last_endpoint);
  return {};
}

Status Sockets::dial(ProcessId peer, const std::string& address, const std::string& key) {
  hang_up(peer);
  if (options_.keys && !is_key(key)) {
    return Error{fmt::format("cannot dial {}: there is no key for it", address)};
  }
  try {
    dialed_.emplace(peer, connected(address, key));
  } catch (const ::zmq::error_t& error) {
    return Error{fmt::format("cannot dial {}: {}; is the address right?", address, error.what())};
  }
  return {};
}

Sockets::Dialed Sockets::connected(const std::string& address, const std::string& key) {
  socket_t socket(context_, ::zmq::socket_type::dealer);
  set_options(socket, /*ipv6=*/true);
  socket.set(::zmq::sockopt::immediate, true);
  socket.set(::zmq::sockopt::reconnect_ivl, 100);
  socket.set(::zmq::sockopt::reconnect_ivl_max, 1000);
  if (options_.keys) {
    socket.set(::zmq::sockopt::curve_serverkey, key);
    socket.set(::zmq::sockopt::curve_publickey, options_.keys->public_key);
    socket.set(::zmq::sockopt::curve_secretkey, options_.keys->secret_key);
  }
  socket_t monitor =
      monitor_of(socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_DISCONNECTED);
  socket.connect(address);
  return {{std::move(socket)}, {std::move(monitor)}};
}

void Sockets::hang_up(ProcessId peer) {
  const auto found = dialed_.find(peer);
  if (found == dialed_.end()) return;
  zmq_socket_monitor(found->second.line.socket.handle(), nullptr, 0);
  dialed_.erase(found);
}

bool Sockets::send(const Route& route, const OutgoingFrame& frame) {
  Watched* to = router_ ? &*router_ : nullptr;
  if (route.dialed) {
    const auto found = dialed_.find(*route.dialed);
    to = found == dialed_.end() ? nullptr : &found->second.line;
  }
  if (to == nullptr) return false;
  to->may_have = true;
  socket_t* const socket = &to->socket;
  constexpr auto kNow = ::zmq::send_flags::dontwait;
  constexpr auto kMore = kNow | ::zmq::send_flags::sndmore;
  try {
    if (!route.dialed) {
      if (!socket->send(::zmq::buffer(route.connection), kMore)) return false;
    }
    const bool has_fragment = frame.header.length > 0;
    const auto header = ::zmq::buffer(&frame.header, sizeof frame.header);
    if (!socket->send(header, has_fragment ? kMore : kNow)) return false;
    if (!has_fragment) return true;
    return socket->send(message_of(frame, options_.keys.has_value()), kNow).has_value();
  } catch (const ::zmq::error_t&) {  // EHOSTUNREACH: the connection is gone
    return false;
  }
}

// ZeroMQ asks once for each connection (its RFC 27); revoking a key later is up to whoever reads
// frames.
void Sockets::answer_door(News& news) {
  door_->may_have = false;
  while (true) {
    std::vector<message_t> asked;
    message_t part;
    while (door_->socket.recv(part, ::zmq::recv_flags::dontwait)) {
      const bool more = part.more();
      asked.push_back(std::move(part));
      part = message_t();
      if (!more) break;
    }
    if (asked.empty()) return;
    const std::string_view mechanism = asked.size() > 5 ? asked[5].to_string_view() : "";
    const bool curve = asked.size() == 7 && mechanism == "CURVE";
    const std::string key = curve ? z85_of(asked[6]) : "";
    const bool allowed = options_.keys ? !key.empty() && options_.allows && options_.allows(key)
                                       : mechanism == "NULL";
    if (!allowed) {
      const std::string host = asked.size() > 3 ? readable_host(asked[3].to_string()) : "";
      news.refusals.push_back(fmt::format("refused from {}: the key {} is not let in", host, key));
    }
    const std::string number = asked.size() > 1 ? asked[1].to_string() : "";
    const std::array<std::string, 6> answer = {"1.0",
                                               number,
                                               allowed ? "200" : "400",
                                               allowed ? "OK" : "this key is not let in",
                                               allowed ? key : "",
                                               ""};
    for (size_t at = 0; at < answer.size(); ++at) {
      const bool last = at + 1 == answer.size();
      door_->socket.send(::zmq::buffer(answer[at]),
                         last ? ::zmq::send_flags::none : ::zmq::send_flags::sndmore);
    }
  }
}

void Sockets::receive(Watched& from, std::optional<ProcessId> dialed, News& news) {
  socket_t& socket = from.socket;
  for (int count = 0; count < kBatch; ++count) {
    std::vector<message_t> parts;
    bool whole = true;
    for (bool more = true; more;) {
      message_t part;
      if (!socket.recv(part, ::zmq::recv_flags::dontwait)) {
        from.may_have = false;
        return;
      }
      more = part.more();
      if (parts.size() < 3) {
        parts.push_back(std::move(part));
      } else {
        whole = false;
      }
    }
    Arrival arrival;
    size_t at = 0;
    if (dialed) {
      arrival.route.dialed = dialed;
    } else {
      arrival.route.connection = parts[at++].to_string();
    }
    if (at < parts.size()) {
      if (!dialed) {
        arrival.key = property_of(parts[at], "User-Id");
        arrival.host = readable_host(property_of(parts[at], "Peer-Address"));
      }
      arrival.header = std::move(parts[at++]);
    }
    if (at < parts.size()) arrival.fragment = std::move(parts[at++]);
    arrival.whole = whole && at == parts.size();
    news.arrivals.push_back(std::move(arrival));
  }
}

void Sockets::read_monitor(ProcessId peer, Watched& monitor, News& news) const {
  using Kind = Change::Kind;
  monitor.may_have = false;
  while (const std::optional<uint16_t> event = next_event(monitor.socket)) {
    if (*event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      news.changes.push_back({peer, Kind::kConnected});
    } else if (*event == ZMQ_EVENT_DISCONNECTED) {
      news.changes.push_back({peer, Kind::kDisconnected});
    } else if (*event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
      news.changes.push_back({peer, Kind::kClosedEarly});
    } else {
      news.changes.push_back({peer, Kind::kRefused});
    }
  }
}

void Sockets::read_router_monitor(News& news) {
  router_monitor_->may_have = false;
  while (const std::optional<uint16_t> event = next_event(router_monitor_->socket)) {
    news.refusals.push_back(*event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
                                ? "refused: a connection of another protocol, or for another key"
                                : "refused: a connection that ended during its handshake");
  }
}

std::vector<Sockets::Watched*> Sockets::watched() {
  std::vector<Watched*> all;
  for (std::optional<Watched>* own : {&door_, &router_, &router_monitor_}) {
    if (*own) all.push_back(&**own);
  }
  for (auto& [peer, dialed] : dialed_) {
    all.push_back(&dialed.line);
    all.push_back(&dialed.monitor);
  }
  return all;
}

void Sockets::read(News& news) {
  if (door_ && door_->may_have) answer_door(news);
  if (router_ && router_->may_have) receive(*router_, std::nullopt, news);
  if (router_monitor_ && router_monitor_->may_have) read_router_monitor(news);
  for (auto& [peer, dialed] : dialed_) {
    if (dialed.line.may_have) receive(dialed.line, peer, news);
    if (dialed.monitor.may_have) read_monitor(peer, dialed.monitor, news);
  }
}

Sockets::News Sockets::poll(Nanos at_most, int wake) {
  News news;
  read(news);
  const std::vector<Watched*> all = watched();
  std::vector<pollfd> files = {{wake, POLLIN, 0}};
  bool waits = news.empty();
  for (const Watched* each : all) {
    files.push_back({each->socket.get(::zmq::sockopt::fd), POLLIN, 0});
    waits = waits && !each->may_have;
  }
  const auto [seconds, rest] = std::div(waits ? at_most.count : 0, int64_t{1'000'000'000});
  const timespec limit = {.tv_sec = seconds, .tv_nsec = rest};
  // A signal (EINTR) only ends the wait.
  if (::ppoll(files.data(), files.size(), &limit, nullptr) <= 0) return news;
  for (size_t at = 0; at < all.size(); ++at) {
    if (files[at + 1].revents != 0) all[at]->may_have = true;
  }
  read(news);
  return news;
}

void Sockets::close() {
  if (router_) {
    zmq_socket_monitor(router_->socket.handle(), nullptr, 0);
    router_->socket.set(::zmq::sockopt::linger, kLastFramesMs);
  }
  for (auto& [peer, dialed] : dialed_) {
    zmq_socket_monitor(dialed.line.socket.handle(), nullptr, 0);
    dialed.line.socket.set(::zmq::sockopt::linger, kLastFramesMs);
  }
  dialed_.clear();
  router_.reset();
  router_monitor_.reset();
  door_.reset();
  context_.close();
}

}  // namespace leeway::zmq
#endif
