// Time as a value. Clocks are in base/clock.h.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace leeway {

inline constexpr double kNanosPerSecond = 1e9;

// Saturates: a sum or product beyond max(), the end of virtual time, stays there.
struct Nanos {
  int64_t count = 0;
  static constexpr Nanos max() { return {std::numeric_limits<int64_t>::max()}; }
  static Nanos rounded(double count) { return count < 0x1p63 ? Nanos{std::llround(count)} : max(); }
  auto operator<=>(const Nanos&) const = default;
  friend Nanos operator-(Nanos a, Nanos b) { return {a.count - b.count}; }
  friend Nanos operator+(Nanos a, Nanos b) {
    Nanos sum;
    return __builtin_add_overflow(a.count, b.count, &sum.count) ? max() : sum;
  }
  friend Nanos operator*(Nanos a, int64_t times) {
    Nanos product;
    return __builtin_mul_overflow(a.count, times, &product.count) ? max() : product;
  }
  double seconds() const { return static_cast<double>(count) * 1e-9; }
};

}  // namespace leeway
