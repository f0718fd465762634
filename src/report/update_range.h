#pragma once

#include <cstdint>

namespace leeway {

struct UpdateRange {
  int64_t first = 0;  // counted from 1
  int64_t last = 0;   // inclusive
  bool operator==(const UpdateRange&) const = default;
};

}  // namespace leeway
