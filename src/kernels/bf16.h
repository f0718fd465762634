// bf16 as its 16 bits: the same on the CPU and in a kernel of a GPU.
#pragma once

#include <cstdint>

#include "base/simd.h"

namespace leeway {

// Rounds to nearest even, like ATen.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE uint16_t bf16_of(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const uint32_t quiet_nan = 0x7fc0U;  // rounding could turn a NaN into an infinity
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

// Rounds up or down at random, so that the mean is the value. `drawn`: 16 random bits.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE uint16_t bf16_by_chance(float value, uint16_t drawn) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  return finite ? static_cast<uint16_t>((bits + drawn) >> 16U) : bf16_of(value);
}

LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE float bf16_value(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16U);
}

}  // namespace leeway
