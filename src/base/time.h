// Time as a value. Clocks are in base/clock.h.
#pragma once

#include <compare>
#include <cstdint>

namespace leeway {

struct Nanos {
  int64_t count = 0;
  auto operator<=>(const Nanos&) const = default;
  friend Nanos operator-(Nanos a, Nanos b) { return {a.count - b.count}; }
  friend Nanos operator+(Nanos a, Nanos b) { return {a.count + b.count}; }
  double seconds() const { return static_cast<double>(count) * 1e-9; }
};

}  // namespace leeway
