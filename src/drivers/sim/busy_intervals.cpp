#include "drivers/sim/busy_intervals.h"

#include <algorithm>

#include "base/check.h"

namespace leeway::sim {

void BusyIntervals::add(Nanos begin, Nanos end) {
  LEEWAY_CHECK(begin <= end, "work does not end before it began");
  LEEWAY_CHECK(newest_.end <= begin, "a worker does one thing at a time");
  total_ = total_ + (end - begin);
  if (newest_.end == begin) {
    newest_.end = end;
    return;
  }
  if (newest_.length().count > 0) earlier_.push_back(newest_);
  newest_ = {begin, end};
}

Nanos BusyIntervals::within(const Window& window) const {
  const auto ends_before = [](const Window& interval, Nanos time) { return interval.end <= time; };
  const auto common = [&](const Window& interval) {
    const Nanos length =
        std::min(interval.end, window.end) - std::max(interval.begin, window.begin);
    return std::max(length, Nanos{0});
  };
  Nanos sum = common(newest_);
  auto at = std::lower_bound(earlier_.begin(), earlier_.end(), window.begin, ends_before);
  for (; at != earlier_.end() && at->begin < window.end; ++at) sum = sum + common(*at);
  return sum;
}

}  // namespace leeway::sim
