#include "drivers/mpi/mpi_post.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway::mpi {
namespace {

// Of one class in one turn, so that a flood of one does not keep the others waiting.
constexpr int kArrivalsPerTurn = 16;
constexpr size_t kHandedOverPerTurn = 16;

}  // namespace

class MpiPost::Endpoint final : public Post {
 public:
  Endpoint(MpiPost& post, ProcessId self) : post_(post), self_(self) {}
  ~Endpoint() override { close(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  void send(ProcessId to, Parcel parcel) override {
    post_.send({.from = self_, .to = to, .parcel = std::move(parcel)});
  }
  void close() override { post_.close(self_); }

 private:
  MpiPost& post_;
  ProcessId self_;
};

MpiPost::MpiPost(World& world, MpiPostOptions options)
    : world_(world),
      handlers_(std::move(options.handlers)),
      waiting_(static_cast<size_t>(world.size())) {
  LEEWAY_CHECK(!handlers_.empty(), "somebody lives here");
  for (const auto& [process, handlers] : handlers_) {
    LEEWAY_CHECK(rank_of(process) == world.rank(), "a process lives on its own rank");
    LEEWAY_CHECK(handlers.received != nullptr, "somebody takes what arrives");
  }
  world_.call([&] {
    communicator_ = std::make_unique<Communicator>();
    for (int rank = 0; rank < world_.size(); ++rank) {
      Peer& peer = peers_.emplace_back();
      for (int traffic = 0; rank != world_.rank() && traffic < kTrafficClasses; ++traffic) {
        const Way way = {.communicator = communicator_.get(),
                         .own = world_.rank(),
                         .peer = rank,
                         .traffic = static_cast<TrafficClass>(traffic),
                         .piece_bytes_max = options.piece_bytes_max};
        peer.departures.emplace_back(way);
        peer.arrivals.emplace_back(way);
      }
    }
    world_.give_turns_to([this] { return turn(); });
  });
}

MpiPost::~MpiPost() { close(); }

std::unique_ptr<Post> MpiPost::endpoint(ProcessId self) {
  LEEWAY_CHECK(handlers_.contains(self), "an endpoint is of one that lives here");
  return std::make_unique<Endpoint>(*this, self);
}

void MpiPost::send(Addressed addressed) {
  const int64_t rank = rank_of(addressed.to);
  LEEWAY_CHECK(addressed.to.value >= 0 && rank < world_.size(), "the receiver has a rank");
  LEEWAY_CHECK(static_cast<int64_t>(addressed.parcel.bytes.size()) <= kParcelBytesMax,
               "the receiver refuses larger parcels");
  {
    const std::lock_guard lock(mutex_);
    const ProcessId from = addressed.from;
    if (farewell_said_ || gone_.contains(from)) return;
    Queues& queues = waiting_[static_cast<size_t>(rank)];
    ParcelQueue& queue = queues[static_cast<size_t>(addressed.parcel.traffic)];
    if (queue.put(std::move(addressed))) ++unsent_[from];
  }
  world_.wake();
}

void MpiPost::close() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [process, handlers] : handlers_) closing_.insert(process);
  }
  finish();
}

void MpiPost::close(ProcessId self) {
  {
    std::unique_lock lock(mutex_);
    if (!closing_.insert(self).second) return;
    if (closing_.size() < handlers_.size()) {
      changed_.wait(lock, [&] { return unsent_[self] == 0; });
      gone_.insert(self);
      lock.unlock();
      world_.call([] {});  // a handler of its own that has begun ends before this
      return;
    }
  }
  finish();
}

void MpiPost::finish() {
  world_.wake();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  world_.call([&] {
    if (communicator_ == nullptr) return;  // it was finished before
    world_.give_turns_to({});
    communicator_->give_back();
    communicator_.reset();
  });
}

World::Pace MpiPost::turn() {
  under_way_ = false;
  bool moved = begin_departures();
  moved |= begin_arrivals();
  moved |= look_at_peers();
  say_farewell();
  note_end();
  if (moved) return World::Pace::kMoved;
  return under_way_ ? World::Pace::kUnderWay : World::Pace::kNothing;
}

std::vector<Addressed> MpiPost::take_waiting() {
  std::vector<Addressed> taken;
  const std::lock_guard lock(mutex_);
  for (size_t rank = 0; rank < waiting_.size(); ++rank) {
    for (size_t traffic = 0; traffic < waiting_[rank].size(); ++traffic) {
      ParcelQueue& queue = waiting_[rank][traffic];
      const bool is_here = rank == static_cast<size_t>(world_.rank());
      size_t room = is_here ? kHandedOverPerTurn : peers_[rank].departures[traffic].room();
      for (; room > 0 && !queue.empty(); --room) taken.push_back(queue.take());
    }
  }
  return taken;
}

bool MpiPost::begin_departures() {
  std::vector<Addressed> taken = take_waiting();
  for (Addressed& addressed : taken) {
    const ProcessId from = addressed.from;
    const int64_t rank = rank_of(addressed.to);
    if (rank == world_.rank()) {
      hand_over(std::move(addressed));
      has_left(from);
    } else {
      const auto traffic = static_cast<size_t>(addressed.parcel.traffic);
      peers_[static_cast<size_t>(rank)].departures[traffic].begin(std::move(addressed));
    }
  }
  return !taken.empty();
}

bool MpiPost::begin_arrivals() {
  bool moved = false;
  for (int traffic = 0; traffic < kTrafficClasses; ++traffic) {
    for (int count = 0; count < kArrivalsPerTurn; ++count) {
      const auto arrival = communicator_->arrived(traffic);
      if (!arrival.has_value()) break;
      const auto from = static_cast<size_t>(arrival->from);
      peers_[from].arrivals[static_cast<size_t>(traffic)].begin(*arrival);
      moved = true;
    }
  }
  return moved;
}

bool MpiPost::look_at_peers() {
  bool moved = false;
  for (Peer& peer : peers_) {
    for (Departures& departures : peer.departures) {
      moved |= departures.look([&](ProcessId from) { has_left(from); });
      under_way_ |= !departures.empty();
    }
    for (Arrivals& arrivals : peer.arrivals) {
      moved |= arrivals.look([&](Addressed addressed) { hand_over(std::move(addressed)); });
      under_way_ |= !arrivals.empty();
    }
  }
  return moved;
}

// Once all that live here want to close and all of theirs has left, nothing more is taken.
void MpiPost::say_farewell() {
  {
    const std::lock_guard lock(mutex_);
    const auto has_none = [](const auto& entry) { return entry.second == 0; };
    if (farewell_said_ || closing_.size() < handlers_.size()) return;
    if (!std::ranges::all_of(unsent_, has_none)) return;
    farewell_said_ = true;
  }
  for (Peer& peer : peers_) {
    for (Departures& departures : peer.departures) departures.begin_farewell();
  }
}

void MpiPost::note_end() {
  const bool all_quiet = std::ranges::all_of(peers_, [](const Peer& peer) {
    return std::ranges::all_of(peer.departures, &Departures::empty) &&
           std::ranges::all_of(peer.arrivals, &Arrivals::ended);
  });
  const std::lock_guard lock(mutex_);
  if (!farewell_said_ || !all_quiet) return;
  ended_ = true;
  changed_.notify_all();
}

void MpiPost::hand_over(Addressed addressed) {
  const auto handlers = handlers_.find(addressed.to);
  {
    const std::lock_guard lock(mutex_);
    if (handlers == handlers_.end() || gone_.contains(addressed.to)) return;
  }
  handlers->second.received(addressed.from, std::move(addressed.parcel));
}

void MpiPost::has_left(ProcessId from) {
  const std::lock_guard lock(mutex_);
  if (--unsent_[from] == 0) changed_.notify_all();
}

}  // namespace leeway::mpi
