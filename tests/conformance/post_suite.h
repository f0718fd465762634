// What a post owes the processes of a run, as parcels that one can make and recognize. The suite
// over all posts in one program (post_test.cpp) and the program that every rank of an MPI job runs
// (mpi_post_main.cpp) check with the same functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "../support/numbered_parcel.h"
#include "base/hash.h"
#include "base/rng.h"
#include "drivers/loop/post.h"

namespace leeway {

// Posts of one program that reach each other.
struct OpenPosts {
  std::shared_ptr<void> owner = {};  // of what they share, if anything
  std::vector<std::unique_ptr<Post>> posts = {};
};
struct PostCase {
  std::string name;
  size_t processes = 2;  // with the ids from 0
  std::function<OpenPosts(std::vector<Post::Handlers>)> open;
  friend void PrintTo(const PostCase& post, std::ostream* out) { *out << post.name; }
};

// All that a receiver can tell about a parcel. Tests number the parcels of a link in `session`.
struct Receipt {
  Parcel::Kind kind = Parcel::Kind::kMesh;
  int64_t number = 0;
  size_t bytes = 0;
  uint64_t hash = 0;
  auto operator<=>(const Receipt&) const = default;
};
inline Receipt receipt_of(const Parcel& parcel) {
  return {.kind = parcel.kind,
          .number = parcel.session,
          .bytes = parcel.bytes.size(),
          .hash = hash_bytes(parcel.bytes)};
}
// In the order of their arrival, by sender and class.
using Receipts = std::map<std::pair<ProcessId, TrafficClass>, std::vector<Receipt>>;

// What one process has received.
class Ledger {
 public:
  Post::Handlers handlers() {
    return {.received = [this](ProcessId from, Parcel parcel) {
      const Receipt receipt = receipt_of(parcel);
      const std::lock_guard lock(mutex_);
      receipts_[{from, parcel.traffic}].push_back(receipt);
      ++count_;
      changed_.notify_all();
    }};
  }
  // False: they did not come within minutes.
  bool wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(5), [&] { return count_ >= count; });
  }
  Receipts receipts() {
    const std::lock_guard lock(mutex_);
    return receipts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Receipts receipts_;
  size_t count_ = 0;
};

// Parcels of random sizes, classes and kinds on every link; many are small, some are large.
struct Mix {
  uint64_t seed = 1;
  int64_t count = 300;  // on each link
  uint64_t bytes_max = 3'000'000;
};
inline Parcel mixed_parcel(const Mix& mix, ProcessId from, ProcessId to, int64_t number) {
  const auto link = static_cast<uint64_t>(from.value * 1000 + to.value);
  const RandomKey key = {.seed = mix.seed, .stream = Stream::kJitter, .name = link};
  const auto counter = static_cast<uint64_t>(number) * 4;
  const uint64_t largest = mix.bytes_max >> (random_bits(key, counter) % 22);
  const size_t bytes = random_bits(key, counter + 1) % (largest + 1);
  const auto traffic =
      static_cast<TrafficClass>(random_bits(key, counter + 2) % uint64_t{kTrafficClasses});
  Parcel parcel = numbered_parcel(number, bytes, traffic);
  parcel.kind = static_cast<Parcel::Kind>(random_bits(key, counter + 3) % uint64_t{kParcelKinds});
  return parcel;
}

// Sends the mix to all receivers, in turns.
inline void send_mix(const Mix& mix, Post& post, ProcessId from,
                     const std::vector<ProcessId>& receivers) {
  for (int64_t number = 0; number < mix.count; ++number) {
    for (const ProcessId to : receivers) post.send(to, mixed_parcel(mix, from, to, number));
  }
}
inline Receipts expected_of_mix(const Mix& mix, const std::vector<ProcessId>& senders,
                                ProcessId to) {
  Receipts expected;
  for (const ProcessId from : senders) {
    for (int64_t number = 0; number < mix.count; ++number) {
      const Parcel parcel = mixed_parcel(mix, from, to, number);
      expected[{from, parcel.traffic}].push_back(receipt_of(parcel));
    }
  }
  return expected;
}

}  // namespace leeway
