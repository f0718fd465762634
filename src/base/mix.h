// The arithmetic of random numbers by counters, for loops that need it inlined, on the CPU or in a
// kernel of a GPU. Everybody else uses rng.h.
#pragma once

#include <cstdint>

#include "base/simd.h"

namespace leeway {

inline constexpr uint64_t kGoldenBits = 0x9e3779b97f4a7c15ULL;

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// random_bits() of a key that fold() has made one number of.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE constexpr uint64_t folded_bits(uint64_t folded,
                                                                 uint64_t counter) {
  return mix(folded ^ mix(counter * kGoldenBits + 1));
}

}  // namespace leeway
