// One of two processes that are joined by drivers/zmq: an endpoint, and what has come through it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/endpoint.h"
#include "two_processes.h"

namespace leeway {

struct MailboxEndOptions {
  int64_t self = 0;  // 0 or 1; 1 dials
  bool encrypted = false;
  zmq::LineOptions line = {};
  size_t answers_with = 0;  // bytes, to every parcel, in its class; 0: nothing
};

class MailboxEnd {
 public:
  struct Received {
    TrafficClass traffic;
    std::vector<std::byte> bytes;
    Nanos at;  // when the endpoint had it
  };

  MailboxEnd(const Channel& other, const MailboxEndOptions& options)
      : peer_{1 - options.self}, options_(options) {
    std::optional<zmq::KeyPair> keys;
    if (options.encrypted) keys = zmq::new_key_pair().value();
    endpoint_ =
        zmq::Endpoint::open(
            {.self = {options.self},
             .listen = "tcp://127.0.0.1:*",
             .keys = keys,
             .line = options.line,
             .clock = clock_,
             .handlers = {.received = [this](ProcessId,
                                             Parcel parcel) { receive(std::move(parcel)); }}})
            .value();
    other.tell(endpoint_->address());
    other.tell(keys ? keys->public_key : "-");
    zmq::Peer peer = {.id = peer_, .address = other.hear(), .dial = options.self == 1};
    if (const std::string key = other.hear(); keys) peer.key = key;
    endpoint_->set_peers({peer});
    // One that dials before it is known waits, and tries again.
    other.tell("known");
    other.hear();
  }

  Nanos send(TrafficClass traffic, std::vector<std::byte> bytes) {
    const Nanos now = clock_.now();
    endpoint_->send(peer_, {.traffic = traffic, .bytes = std::move(bytes)});
    return now;
  }

  Received wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !received_.empty(); });
    Received first = std::move(received_.front());
    received_.pop_front();
    return first;
  }

  void close() { endpoint_->close(); }

 private:
  void receive(Parcel parcel) {
    if (options_.answers_with > 0) {
      send(parcel.traffic, std::vector<std::byte>(options_.answers_with));
      return;
    }
    const std::lock_guard lock(mutex_);
    received_.push_back({parcel.traffic, std::move(parcel.bytes), clock_.now()});
    changed_.notify_one();
  }

  const threads::WallClock clock_;
  const ProcessId peer_;
  const MailboxEndOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Received> received_;
  std::unique_ptr<zmq::Endpoint> endpoint_;  // last: its thread uses the others
};

}  // namespace leeway
