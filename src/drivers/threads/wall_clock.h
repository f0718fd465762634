#pragma once

#include "base/clock.h"

namespace leeway::threads {

class WallClock final : public Clock {
 public:
  Nanos now() const override;
};

}  // namespace leeway::threads
