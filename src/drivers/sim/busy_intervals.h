// When a worker was busy, in as few intervals as possible: a worker that is always busy has one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace leeway::sim {

// A stretch of virtual time, [begin, end).
struct Window {
  Nanos begin;
  Nanos end;
  Nanos length() const { return end - begin; }
};

class BusyIntervals {
 public:
  // In order: `begin` is never before the end of the previous interval.
  void add(Nanos begin, Nanos end);

  Nanos total() const { return total_; }
  // Busy time inside the window.
  Nanos within(const Window& window) const;
  Nanos last_end() const { return newest_.end; }

 private:
  // All but the newest, ascending, with a gap between any two. The newest is what every piece of
  // work touches, so it is not in another place in memory.
  std::vector<Window> earlier_;
  Window newest_ = {};
  Nanos total_;
};

}  // namespace leeway::sim
