#pragma once

#include "base/clock.h"

namespace leeway::threads {

class WallClock final : public Clock {
 public:
  Nanos now() const override;
};

// Seconds since 1970, to compare with the times of files.
double unix_seconds();

}  // namespace leeway::threads
