// Code asks a Clock for the time instead of reading it itself: the driver owns the clock, which may
// run on virtual time.
#pragma once

#include "base/time.h"

namespace leeway {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;  // monotonic; only differences mean something
};

}  // namespace leeway
