// A link whose bandwidth and latency change over time, as in a recording.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace leeway::sim {

class LinkTrace {
 public:
  // Valid from `at` until the next point.
  struct Point {
    Nanos at;
    double bytes_per_second = 0;  // 0: nothing moves
    Nanos latency;
  };
  // Ascending from 0; at least one has a bandwidth above 0. The last point lasts as long as the one
  // before it; then the recording repeats.
  explicit LinkTrace(std::vector<Point> points);

  // When a transfer of `bytes` that starts at `begin` ends.
  Nanos end_of_transfer(Nanos begin, int64_t bytes) const;
  Nanos latency(Nanos now) const;

 private:
  size_t point_at(Nanos within) const;

  std::vector<Point> points_;
  Nanos length_;
  double bytes_ = 0;  // the link moves this many in one recording
};

}  // namespace leeway::sim
