#include "drivers/sim/busy_intervals.h"

#include <algorithm>

#include "base/check.h"

namespace leeway::sim {

void BusyIntervals::add(Nanos begin, Nanos end) {
  LEEWAY_CHECK(begin <= end, "work does not end before it began");
  LEEWAY_CHECK(intervals_.empty() || intervals_.back().end <= begin,
               "a worker does one thing at a time");
  total_ = total_ + (end - begin);
  if (!intervals_.empty() && intervals_.back().end == begin) {
    intervals_.back().end = end;
  } else {
    intervals_.push_back({begin, end});
  }
}

Nanos BusyIntervals::within(const Window& window) const {
  const auto ends_before = [](const Window& interval, Nanos time) { return interval.end <= time; };
  auto at = std::lower_bound(intervals_.begin(), intervals_.end(), window.begin, ends_before);
  Nanos sum;
  for (; at != intervals_.end() && at->begin < window.end; ++at) {
    sum = sum + (std::min(at->end, window.end) - std::max(at->begin, window.begin));
  }
  return sum;
}

}  // namespace leeway::sim
