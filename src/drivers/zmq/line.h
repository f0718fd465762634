// A line that is slower than the real one: latency, bandwidth, jitter and loss for the frames that
// leave on one link, with the meaning that the simulator's links have (drivers/sim/links.h).
// Without latency it is a cap on the bandwidth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/rng.h"
#include "base/time.h"

namespace leeway::zmq {

struct LineOptions {
  Nanos latency = {};           // one way
  double bytes_per_second = 0;  // 0: no limit
  Nanos jitter = {};            // added to the latency: between 0 and this, drawn per frame
  double loss = 0;              // share of the frames that are sent again, so come later
  uint64_t seed = 0;

  bool is_slow() const {
    return latency.count > 0 || bytes_per_second > 0 || jitter.count > 0 || loss > 0;
  }
};

class Line {
 public:
  explicit Line(const LineOptions& options) : options_(options) {}

  // A frame that leaves before this waits for bytes of earlier ones: what matters more may still
  // overtake it.
  Nanos free_at() const { return free_at_; }
  // When a frame of this size that begins to leave now comes out at the other end.
  Nanos send(int64_t bytes, Nanos now) {
    free_at_ = std::max(now, free_at_);
    if (options_.bytes_per_second > 0) {
      const double seconds = static_cast<double>(bytes) / options_.bytes_per_second;
      free_at_ = free_at_ + Nanos::rounded(std::ceil(seconds * kNanosPerSecond));
    }
    Nanos arrival = free_at_ + options_.latency;
    const RandomKey key = {.seed = options_.seed, .stream = Stream::kJitter};
    const double share = random_uniform(key, 2 * frames_);
    arrival = arrival + Nanos::rounded(share * static_cast<double>(options_.jitter.count));
    // TCP notices after about a round trip, and at least a fifth of a second.
    if (random_uniform(key, 2 * frames_ + 1) < options_.loss) {
      arrival = arrival + options_.latency * 2 + Nanos{200'000'000};
    }
    ++frames_;
    arrival_ = std::max(arrival_, arrival);  // in order, like TCP
    return arrival_;
  }

 private:
  LineOptions options_;
  Nanos free_at_ = {};
  Nanos arrival_ = {};
  uint64_t frames_ = 0;
};

}  // namespace leeway::zmq
