#if LEEWAY_ZMQ
#include "drivers/zmq/exchange.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "base/hash.h"

namespace leeway::zmq {
namespace {

// One that has not joined has little to say.
constexpr uint64_t kVisitorBytesMax = uint64_t{1} << 20;
constexpr Nanos kCloseWithin = {10'000'000'000};
constexpr Nanos kReadWithin = {50'000'000};

void add_to(LinkCounts& sum, const LinkCounts& more) {
  sum.parcels_sent += more.parcels_sent;
  sum.parcels_replaced += more.parcels_replaced;
  sum.parcels_received += more.parcels_received;
  sum.frames_repeated += more.frames_repeated;
  sum.bytes_sent += more.bytes_sent;
  sum.bytes_received += more.bytes_received;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Exchange::open(EndpointOptions options) {
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake < 0) return Error{"the system has no more file descriptors; close other programs"};
  // The door's questions come while the exchange polls: it knows the keys of its peers.
  auto asks = std::make_shared<std::function<bool(const std::string&)>>();
  Result<std::unique_ptr<Sockets>> sockets = Sockets::open(
      {.listen = options.listen, .keys = options.keys, .allows = [asks](const std::string& key) {
         return (*asks)(key);
       }});
  if (!sockets.ok()) {
    ::close(wake);
    return sockets.error();
  }
  std::unique_ptr<Exchange> exchange(new Exchange(std::move(options), std::move(*sockets), wake));
  *asks = [at = exchange.get()](const std::string& key) {
    const bool known = std::ranges::any_of(at->correspondents_, [&](const auto& of) {
      return !of.second.visits && of.second.peer.key == key;
    });
    return known || (at->options_.allows && at->options_.allows(key));
  };
  exchange->thread_ = std::thread([at = exchange.get()] { at->work(); });
  return std::unique_ptr<Endpoint>(std::move(exchange));
}

Exchange::Exchange(EndpointOptions options, std::unique_ptr<Sockets> sockets, int wake)
    : options_(std::move(options)),
      address_(sockets->address()),
      wake_(wake),
      sockets_(std::move(sockets)),
      lookups_(options_.resolve, [this] { this->wake(); }) {}

Exchange::~Exchange() {
  close();
  lookups_.abandon();  // they would wake it
  ::close(wake_);
}

void Exchange::wake() const {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_, &one, sizeof one));  // it only fails where it is awake already
}

void Exchange::give(Order order) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  orders_.push_back(std::move(order));
  wake();
}

void Exchange::send(ProcessId to, Parcel parcel) { give(Letter{to, std::move(parcel)}); }
void Exchange::set_peers(std::vector<Peer> peers) { give(Peers{std::move(peers)}); }
void Exchange::forget(ProcessId peer) { give(Forget{peer}); }
void Exchange::shape(const LineOptions& line, Nanos heartbeat) { give(Shape{line, heartbeat}); }

void Exchange::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
}

std::optional<Endpoint::Visitor> Exchange::visitor(ProcessId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = visitors_.find(id);
  return found == visitors_.end() ? std::nullopt : std::optional(found->second);
}

Heard Exchange::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

LinkCounts Exchange::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Exchange::work() {
  sigset_t all;  // are for others: here they would interrupt a call of ZeroMQ's
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::optional<Nanos> close_by;
  while (true) {
    const bool closing = take_orders();
    dial_those_found();
    const Nanos now = options_.clock.now();
    // While this process stood still, nobody could be heard: that is not their silence.
    const bool paused = looked_at_ && now - *looked_at_ > options_.heartbeat * 2;
    looked_at_ = now;
    for (auto& [id, with] : correspondents_) {
      if (paused) with.since = now;
      look_after(with, now);
    }
    count();
    if (closing && !close_by) close_by = now + kCloseWithin;
    if (close_by && (drained(now) || now >= *close_by)) break;
    const Nanos due = next_due(now);
    Sockets::News news = sockets_->poll(close_by ? std::min(due, kReadWithin) : due, wake_);
    const Nanos then = options_.clock.now();
    for (const std::string& sentence : news.refusals) refuse(sentence);
    for (const Change& each : news.changes) change(each, then);
    for (Arrival& arrival : news.arrivals) receive(arrival, then);
  }
  sockets_->close();
}

bool Exchange::take_orders() {
  std::vector<Order> orders;
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    static_cast<void>(::read(wake_, &count, sizeof count));  // empty: nobody has woken it
    orders = std::exchange(orders_, {});
    closing = closing_;
  }
  for (Order& order : orders) {
    std::visit([this](auto& each) { carry_out(each); }, order);
  }
  return closing;
}

// What is for one that is gone is dropped.
void Exchange::carry_out(Letter& letter) {
  if (letter.to == options_.self) {
    return options_.handlers.received(letter.to, std::move(letter.parcel));
  }
  const auto found = correspondents_.find(letter.to);
  if (found != correspondents_.end()) found->second.link.put(std::move(letter.parcel));
}

void Exchange::carry_out(Peers& peers) {
  const Nanos now = options_.clock.now();
  std::vector<ProcessId> gone;
  for (const auto& [id, with] : correspondents_) {
    if (!with.visits && std::ranges::count(peers.peers, id, &Peer::id) == 0) gone.push_back(id);
  }
  for (const ProcessId id : gone) drop(id);
  for (const Peer& peer : peers.peers) {
    if (peer.id == options_.self) continue;
    const auto found = correspondents_.find(peer.id);
    const bool known = found != correspondents_.end();
    const bool dials = known && found->second.peer.dial;
    Correspondent& with = known ? found->second : add(peer, /*visits=*/false, now);
    const bool moved = known && found->second.peer.address != peer.address;
    with.peer = peer;
    with.visits = false;
    with.link.set_unassembled_max(kParcelBytesMax);
    if (!peer.dial || (dials && !moved)) continue;
    if (moved) sockets_->hang_up(peer.id);
    with.since = now;
    with.patience = kPatienceMin;
    with.told_unreachable = with.told_key_refused = false;
    dial(with, now);
  }
}

void Exchange::carry_out(const Forget& forgotten) { drop(forgotten.peer); }

void Exchange::carry_out(const Shape& shape) {
  options_.line = shape.line;
  options_.heartbeat = shape.heartbeat;
  for (auto& [id, with] : correspondents_) {
    with.line = Line(line_to(id));
    with.link.set_beat(shape.heartbeat);
  }
}

LineOptions Exchange::line_to(ProcessId peer) const {
  const std::array<int64_t, 2> name = {options_.self.value, peer.value};
  LineOptions line = options_.line;
  line.seed = hash_bytes(std::as_bytes(std::span(name)), line.seed);
  return line;
}

Exchange::Correspondent& Exchange::add(const Peer& peer, bool visits, Nanos now) {
  const std::array<int64_t, 4> name = {options_.self.value, peer.id.value, now.count,
                                       static_cast<int64_t>(++generations_)};
  const uint64_t generation = hash_bytes(std::as_bytes(std::span(name))) | 1;
  Correspondent with = {
      .peer = peer,
      .link = Link({.self = options_.self,
                    .generation = generation,
                    .beat = options_.heartbeat,
                    .encrypted = options_.keys.has_value(),
                    .unassembled_bytes_max = visits ? kVisitorBytesMax : kParcelBytesMax}),
      .line = Line(line_to(peer.id)),
      .visits = visits,
      .since = now};
  return correspondents_.emplace(peer.id, std::move(with)).first->second;
}

void Exchange::drop(ProcessId peer) {
  const auto found = correspondents_.find(peer);
  if (found == correspondents_.end()) return;
  Correspondent& with = found->second;
  if (with.route && with.link.owes()) {  // it may wait for that before it goes
    greet(with, FrameKind::kBeat, Route(*with.route), options_.clock.now());
  }
  add_to(ended_, with.link.counts());
  sockets_->hang_up(peer);
  correspondents_.erase(found);
  const std::lock_guard lock(mutex_);
  visitors_.erase(peer);
}

bool Exchange::drained(Nanos now) const {
  return std::ranges::all_of(correspondents_, [now](const auto& of) {
    const Correspondent& with = of.second;
    if (with.silent || with.told_forgotten) return true;
    // The other end waits for an acknowledgement, too; and it has to be read there before the
    // connection ends: ZeroMQ drops what was not.
    const auto& answered_at = with.link.answered_at();
    const bool may_be_unread = answered_at && now - *answered_at < kReadWithin;
    const bool owes = with.route && (with.link.owes() || may_be_unread);
    return with.link.drained() && with.delayed.empty() && !owes;
  });
}

void Exchange::note_heard(Nanos now) {
  const std::lock_guard lock(mutex_);
  const bool gap = heard_.at.count > 0 && now - heard_.at > options_.heartbeat * 2;
  if (gap) heard_.since = now;
  heard_.at = now;
}

void Exchange::count() {
  LinkCounts counts = ended_;
  for (const auto& [id, with] : correspondents_) add_to(counts, with.link.counts());
  const std::lock_guard lock(mutex_);
  counts_ = counts;
}

}  // namespace leeway::zmq
#endif
