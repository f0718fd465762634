// A link whose bandwidth and latency change with time, as somebody has recorded it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace leeway::sim {

class LinkTrace {
 public:
  // From `at` on, up to the next point.
  struct Point {
    Nanos at;
    double bytes_per_second = 0;  // 0: nothing moves
    Nanos latency;
  };
  // Ascending from 0, with one at which bytes move. The last point lasts as long as the one before
  // it; then the recording begins again.
  explicit LinkTrace(std::vector<Point> points);

  // When so many bytes have gone that begin now.
  Nanos end_of_transfer(Nanos begin, int64_t bytes) const;
  Nanos latency(Nanos now) const;

 private:
  size_t point_at(Nanos within) const;

  std::vector<Point> points_;
  Nanos length_;
  double bytes_ = 0;  // that go in one recording
};

}  // namespace leeway::sim
