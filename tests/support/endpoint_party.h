// A process's endpoint on loopback, and all that it has been told so far. Tests wait for something
// to become true, never for time to pass.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/endpoint.h"
#include "two_links.h"

namespace leeway::zmq {

class Party {
 public:
  struct Told {
    std::map<ProcessId, std::vector<Taken>> received = {};
    std::map<ProcessId, int> silent = {};
    std::map<ProcessId, int> heard_again = {};
    std::map<ProcessId, int> forgotten = {};
    std::map<ProcessId, int> key_refused = {};
    std::map<ProcessId, int> closes_early = {};
    std::map<ProcessId, int> unreachable = {};
    bool closes_early_first = false;  // when something was first unreachable
    std::vector<std::string> refused = {};
  };

  // Its handlers and clock are set here.
  explicit Party(EndpointOptions options) : keys(options.keys), id(options.self) {
    options.handlers = handlers();
    endpoint = Endpoint::open(std::move(options)).value();
  }
  static EndpointOptions options(int64_t self, bool encrypted) {
    static const threads::WallClock clock;
    EndpointOptions result = {
        .self = {self}, .listen = "tcp://127.0.0.1:*", .clock = clock, .handlers = {}};
    if (encrypted) result.keys = new_key_pair().value();
    return result;
  }
  Peer peer(bool dial) const {
    return {.id = id,
            .address = endpoint->address(),
            .key = keys ? keys->public_key : "",
            .dial = dial};
  }
  // False: it did not come within five minutes.
  bool wait_for(const std::function<bool(const Told&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(5), [&] { return condition(told_); });
  }
  bool wait_for_parcels(ProcessId from, size_t count) {
    return wait_for([&](const Told& told) {
      const auto found = told.received.find(from);
      return found != told.received.end() && found->second.size() >= count;
    });
  }
  // Until the endpoint has done all that it was asked to so far: what it sends itself comes last.
  void settle() {
    const size_t before = told().received[id].size();
    send(*this, 0);
    EXPECT_TRUE(wait_for_parcels(id, before + 1));
  }
  Told told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  void send(const Party& to, int64_t number, size_t bytes = 100) {
    endpoint->send(to.id, numbered_parcel(number, bytes, TrafficClass::kPipeline));
  }

  std::optional<KeyPair> keys;
  ProcessId id;

 private:
  Post::Handlers handlers() {
    const auto count = [this](std::map<ProcessId, int> Told::*where) {
      return [this, where](ProcessId peer) { note([&] { ++(told_.*where)[peer]; }); };
    };
    return {.received =
                [this](ProcessId from, Parcel parcel) {
                  const Taken taken = taken_of(parcel);
                  note([&] { told_.received[from].push_back(taken); });
                },
            .silent = count(&Told::silent),
            .heard_again = count(&Told::heard_again),
            .forgotten = count(&Told::forgotten),
            .key_refused = count(&Told::key_refused),
            .closes_early = count(&Told::closes_early),
            .unreachable =
                [this](ProcessId peer) {
                  note([&] {
                    const bool first = told_.unreachable.empty();
                    if (first) told_.closes_early_first = !told_.closes_early.empty();
                    ++told_.unreachable[peer];
                  });
                },
            .refused =
                [this](const std::string& sentence) {
                  note([&] { told_.refused.push_back(sentence); });
                }};
  }
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_;

 public:
  std::unique_ptr<Endpoint> endpoint;  // last: its thread uses all of the above
};

// The second dials the first.
inline void connect(Party& first, Party& second) {
  first.endpoint->set_peers({second.peer(false)});
  first.settle();  // else it may not know the key that it is asked for
  second.endpoint->set_peers({first.peer(true)});
}

// Whether a parcel gets through each way.
inline bool talk(Party& first, Party& second) {
  const auto count = [](Party& at, const Party& from) {
    return at.told().received[from.id].size();
  };
  const size_t there = count(second, first);
  const size_t back = count(first, second);
  first.send(second, 1);
  second.send(first, 2);
  return second.wait_for_parcels(first.id, there + 1) &&
         first.wait_for_parcels(second.id, back + 1);
}

}  // namespace leeway::zmq
