#include "drivers/sim/link_trace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace leeway::sim {
namespace {

constexpr Nanos kOnlyPoint = {3'600'000'000'000};  // any length will do: nothing changes

}  // namespace

LinkTrace::LinkTrace(std::vector<Point> points) : points_(std::move(points)) {
  const auto moves = [](const Point& point) { return point.bytes_per_second > 0; };
  LEEWAY_CHECK(std::ranges::any_of(points_, moves), "a recording in which some bytes move");
  LEEWAY_CHECK(points_.front().at.count == 0, "a recording starts at 0");
  const size_t count = points_.size();
  const Nanos last = count > 1 ? points_[count - 1].at - points_[count - 2].at : kOnlyPoint;
  LEEWAY_CHECK(last.count > 0, "times ascend");
  length_ = points_.back().at + last;
  for (size_t at = 0; at < count; ++at) {
    const Nanos end = at + 1 < count ? points_[at + 1].at : length_;
    bytes_ += points_[at].bytes_per_second * (end - points_[at].at).seconds();
  }
}

size_t LinkTrace::point_at(Nanos within) const {
  const auto later = [](Nanos now, const Point& point) { return now < point.at; };
  const auto next = std::upper_bound(points_.begin(), points_.end(), within, later);
  return static_cast<size_t>(next - points_.begin()) - 1;
}

Nanos LinkTrace::end_of_transfer(Nanos begin, int64_t bytes) const {
  // Skip whole recordings first: a slow link may need many. The loop below sends the rest.
  const double whole = std::max(0.0, std::ceil(static_cast<double>(bytes) / bytes_) - 1);
  double left = static_cast<double>(bytes) - whole * bytes_;
  Nanos now = begin + Nanos::rounded(whole * static_cast<double>(length_.count));
  while (now < Nanos::max()) {
    const Nanos within = {now.count % length_.count};
    const size_t at = point_at(within);
    const Nanos end = at + 1 < points_.size() ? points_[at + 1].at : length_;
    const double rate = points_[at].bytes_per_second;
    const double fits = rate * (end - within).seconds();
    if (fits >= left) return now + Nanos::rounded(std::ceil(left / rate * kNanosPerSecond));
    left -= fits;
    now = now + (end - within);
  }
  return now;
}

Nanos LinkTrace::latency(Nanos now) const {
  return points_[point_at({now.count % length_.count})].latency;
}

}  // namespace leeway::sim
