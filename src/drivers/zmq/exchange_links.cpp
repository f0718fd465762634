// What the exchange does for each of its links: connections, frames that leave, frames that arrive.
#if LEEWAY_ZMQ
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "drivers/zmq/address.h"
#include "drivers/zmq/exchange.h"

namespace leeway::zmq {
namespace {

// Of one that has yet to hear of the recipe's heartbeat.
constexpr Nanos kFirstBeat = {500'000'000};
constexpr Nanos kGreetAgain = {250'000'000};
constexpr Nanos kLookUp = {250'000'000};
constexpr Nanos kReachWithin = {3'000'000'000};
constexpr Nanos kPatienceMax = {8'000'000'000};
// Long enough for a whole window on a slow line.
constexpr Nanos kDeadAfter = {15'000'000'000};
// One may be chance: a process that is about to end.
constexpr int64_t kEarlyCloses = 2;
constexpr size_t kVisitorsMax = 4096;

std::span<const std::byte> bytes_of(const ::zmq::message_t& message) {
  return {message.data<std::byte>(), message.size()};
}

}  // namespace

void Exchange::look_after(Correspondent& with, Nanos now) {
  const Handlers& handlers = options_.handlers;
  if (!with.route && with.connected && now - with.greeted_at >= kGreetAgain) {
    greet(with, FrameKind::kHello, {.dialed = with.peer.id}, now);
  }
  pump(with, now);
  if (with.peer.dial) redial(with, now);
  const Nanos heard = std::max(with.since, with.link.heard_at());
  const Nanos beat = with.visits ? std::max(options_.heartbeat, kFirstBeat) : options_.heartbeat;
  const bool silent = now - heard > beat * options_.silent_beats;
  if (silent && !std::exchange(with.silent, true) && handlers.silent) handlers.silent(with.peer.id);
  const bool reached = with.route || with.link.heard_at().count > 0;
  if (with.peer.dial && !reached && now - with.since > kReachWithin) tell_unreachable(with);
}

void Exchange::tell_unreachable(Correspondent& with) {
  if (std::exchange(with.told_unreachable, true)) return;
  if (options_.handlers.unreachable) options_.handlers.unreachable(with.peer.id);
}

void Exchange::dial(Correspondent& with, Nanos now) {
  disconnect(with);
  with.connected = false;
  with.redial_at = now + with.patience;
  with.patience = std::min(with.patience * 2, kPatienceMax);
  const size_t attempt = with.dials++;
  if (is_numeric(host_of(with.peer.address))) return dial_at(with, with.peer.address);
  with.lookup = lookups_.ask(with.peer.address, attempt);
}

// An answer that nobody waits for any more is of a peer that is gone, or that has moved.
void Exchange::dial_those_found() {
  for (const NameLookups::Answer& answer : lookups_.take_answers()) {
    const auto asker = std::ranges::find_if(
        correspondents_, [&](const auto& of) { return of.second.lookup == answer.number; });
    if (asker != correspondents_.end()) dial_at(asker->second, answer.address);
  }
}

void Exchange::dial_at(Correspondent& with, const Result<std::string>& address) {
  with.lookup.reset();
  if (with.route) return;  // meanwhile the connection came back
  const Status status =
      address.ok() ? sockets_->dial(with.peer.id, *address, with.peer.key) : address.error();
  if (status.ok()) return;
  if (!with.told_unreachable) refuse(status.error().message);
  tell_unreachable(with);
}

// ZeroMQ itself dials again when a connection breaks, but not after a handshake that failed or a
// frame that it could not read. Nor does it notice a line that has gone dead.
void Exchange::redial(Correspondent& with, Nanos now) {
  const Nanos heard = std::max(with.since, with.link.heard_at());
  const bool dead = now - heard > kDeadAfter;
  if (!with.lookup && now >= with.redial_at && (!with.route || dead)) dial(with, now);
}

void Exchange::greet(Correspondent& with, FrameKind kind, const Route& route, Nanos now) {
  with.greeted_at = now;
  static_cast<void>(sockets_->send(route, with.link.greeting(kind, now)));
}

// On a slow line a frame leaves when the one before it has: until then, what matters more may come.
void Exchange::pump(Correspondent& with, Nanos now) {
  while (with.route && with.line.free_at() <= now) {
    std::optional<OutgoingFrame> frame = with.link.next(now);
    if (!frame) break;
    if (!options_.line.is_slow() && with.delayed.empty()) {
      transmit(with, *frame);
      continue;
    }
    const Nanos due = with.line.send(frame->bytes, now);
    with.delayed.push_back({due, std::move(*frame)});
  }
  while (with.route && !with.delayed.empty() && with.delayed.front().due <= now) {
    const OutgoingFrame frame = std::move(with.delayed.front().frame);
    with.delayed.pop_front();
    transmit(with, frame);
  }
}

void Exchange::transmit(Correspondent& with, const OutgoingFrame& frame) {
  if (!sockets_->send(*with.route, frame)) disconnect(with);
}

// What was on its way is sent again when the connection is back.
void Exchange::disconnect(Correspondent& with) {
  with.route.reset();
  with.delayed.clear();
}

Nanos Exchange::next_due(Nanos now) const {
  Nanos due = now + std::min(kLookUp, options_.heartbeat);
  for (const auto& [id, with] : correspondents_) {
    if (!with.route) {
      if (with.connected) due = std::min(due, with.greeted_at + kGreetAgain);
      if (with.peer.dial && !with.lookup) due = std::min(due, with.redial_at);
      continue;
    }
    if (!with.delayed.empty()) due = std::min(due, with.delayed.front().due);
    // Nothing leaves before the line is free, not even a sign of life.
    const Nanos free_at = with.line.free_at();
    due = std::min(due, free_at > now ? free_at : with.link.speaks_by());
  }
  return std::max(Nanos{}, due - now);
}

void Exchange::receive(Arrival& arrival, Nanos now) {
  if (!arrival.whole) return refuse(arrival, "a message with more parts than a frame has");
  const std::span<const std::byte> fragment = bytes_of(arrival.fragment);
  const Result<FrameHeader> header = open_frame(bytes_of(arrival.header), fragment);
  if (!header.ok()) return refuse(arrival, header.error().message);
  Correspondent* const with = sender_of(*header, arrival, now);
  if (with == nullptr) return;
  const bool greets = header->kind == FrameKind::kHello || header->kind == FrameKind::kWelcome;
  if (greets && with->link.is_late(*header)) return;
  Result<std::optional<Parcel>> parcel = with->link.take(*header, fragment, now);
  if (!parcel.ok()) return refuse(arrival, parcel.error().message);
  note_heard(now);
  route_by(*with, *header, arrival, now);
  const ProcessId from = with->peer.id;
  const bool was_silent = std::exchange(with->silent, false);
  const bool was_missed = std::exchange(with->told_unreachable, false) || was_silent;
  if (was_missed && options_.handlers.heard_again) options_.handlers.heard_again(from);
  if (*parcel) options_.handlers.received(from, std::move(**parcel));
}

void Exchange::route_by(Correspondent& with, const FrameHeader& header, const Arrival& arrival,
                        Nanos now) {
  if (header.kind == FrameKind::kWelcome) {
    with.route = arrival.route;
    with.patience = kPatienceMin;
    with.early_closes = 0;
    with.told_key_refused = false;
    return;
  }
  // One that goes on where this end has lost the connection has to hear that it has.
  const bool lost = !with.route && !arrival.route.dialed;
  if (header.kind != FrameKind::kHello && !lost) return;
  disconnect(with);
  greet(with, FrameKind::kWelcome, arrival.route, now);
  with.route = arrival.route;
}

// Null: the frame is not from anybody that this process knows.
Exchange::Correspondent* Exchange::sender_of(const FrameHeader& header, const Arrival& arrival,
                                             Nanos now) {
  const auto found = correspondents_.find(header.from);
  if (arrival.route.dialed && header.from != *arrival.route.dialed) {
    refuse(arrival, "a frame of another process than the one that was dialed");
    return nullptr;
  }
  if (found == correspondents_.end()) return welcome_visitor(header, arrival, now);
  Correspondent& with = found->second;
  if (!arrival.route.dialed && with.peer.key != arrival.key) {
    refuse(arrival, fmt::format("a frame of process {} with another key", header.from.value));
    return nullptr;
  }
  if (!with.link.is_mine(header)) {
    answer_unknown(header, arrival.route, now);
    return nullptr;
  }
  if (header.kind != FrameKind::kUnknown) return &with;
  const bool told = std::exchange(with.told_forgotten, true);
  if (!told && options_.handlers.forgotten) options_.handlers.forgotten(with.peer.id);
  return nullptr;
}

// Null: it cannot stay.
Exchange::Correspondent* Exchange::welcome_visitor(const FrameHeader& header,
                                                   const Arrival& arrival, Nanos now) {
  const bool is_new = header.kind == FrameKind::kHello && header.peer_generation == 0;
  if (!is_new || !options_.takes_visitors || header.from == options_.self) {
    answer_unknown(header, arrival.route, now);
    return nullptr;
  }
  // The door asked when the connection was made, which may be long ago.
  if (options_.keys && !(options_.allows && options_.allows(arrival.key))) {
    refuse(arrival, "its key is not let in any more");
    return nullptr;
  }
  if (correspondents_.size() >= kVisitorsMax) {
    refuse(arrival, "there are too many visitors");
    return nullptr;
  }
  const Peer visitor = {.id = header.from, .key = arrival.key};
  {
    const std::lock_guard lock(mutex_);
    visitors_[header.from] = {.key = arrival.key, .host = arrival.host};
  }
  return &add(visitor, /*visits=*/true, now);
}

// One that dials before this process has heard of it says hello again; one that is known no more
// has a generation of this end.
void Exchange::answer_unknown(const FrameHeader& header, const Route& route, Nanos now) {
  if (header.peer_generation == 0 || header.kind == FrameKind::kUnknown) return;
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kUnknown;
  frame.header.from = options_.self;
  frame.header.generation = header.peer_generation;
  frame.header.peer_generation = header.generation;
  frame.header.sent_at = now.count;
  seal(frame.header, {});
  static_cast<void>(sockets_->send(route, frame));
}

void Exchange::change(const Change& change, Nanos now) {
  const auto found = correspondents_.find(change.dialed);
  if (found == correspondents_.end()) return;
  Correspondent& with = found->second;
  switch (change.kind) {
    case Change::Kind::kConnected:
      with.connected = true;
      return greet(with, FrameKind::kHello, {.dialed = change.dialed}, now);
    case Change::Kind::kDisconnected:
      if (std::exchange(with.connected, false)) with.redial_at = now + with.patience;
      if (with.route && with.route->dialed) disconnect(with);
      return;
    case Change::Kind::kClosedEarly:
      if (++with.early_closes == kEarlyCloses && options_.handlers.closes_early) {
        options_.handlers.closes_early(change.dialed);
      }
      return;
    case Change::Kind::kRefused:
      // It may not have heard of this process yet: that takes less time than other troubles.
      with.redial_at = now + Nanos{with.patience.count / 8};
      if (!std::exchange(with.told_key_refused, true) && options_.handlers.key_refused) {
        options_.handlers.key_refused(change.dialed);
      }
      return;
  }
}

void Exchange::refuse(const std::string& sentence) const {
  if (options_.handlers.refused) options_.handlers.refused(sentence);
}

void Exchange::refuse(const Arrival& arrival, const std::string& why) const {
  const std::string from = arrival.host.empty() ? "" : fmt::format(" from {}", arrival.host);
  refuse(fmt::format("refused{}: {}", from, why));
}

}  // namespace leeway::zmq
#endif
