// The time between a worker's updates, learned from the times of its own work: a worker reads no
// clock. The median of a few, so that a pause, a checkpoint or an evaluation does not count.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "base/time.h"
#include "events/work.h"

namespace leeway {

class UpdateTime {
 public:
  // Call for every piece of work. The first update counts from the first piece: it includes the
  // filling of the pipeline, and is better than nothing.
  void finished(WorkKind kind, const WorkTimes& times) {
    if (!since_) since_ = times.begin;
    if (kind != WorkKind::kUpdate) return;
    const Nanos time = times.end - *since_;
    since_ = times.end;
    if (time <= Nanos{0}) return;  // a replay of work whose times were not recorded
    recent_.push_back(time);
    if (recent_.size() > kRecent) recent_.pop_front();
  }

  // Zero: not known yet.
  Nanos get() const {
    if (recent_.empty()) return {};
    std::deque<Nanos> sorted = recent_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  static constexpr size_t kRecent = 5;
  std::optional<Nanos> since_;  // the end of the last update
  std::deque<Nanos> recent_;
};

}  // namespace leeway
