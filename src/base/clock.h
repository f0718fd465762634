// Time is asked for, not taken: a driver owns the clock, and virtual time can stand in for it.
#pragma once

#include "base/time.h"

namespace leeway {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;  // monotonic; only differences mean something
};

}  // namespace leeway
