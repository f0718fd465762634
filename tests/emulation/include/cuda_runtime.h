// Stands in for CUDA's header of this name: the words and functions that our kernels use.
#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "../grid.h"
#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
// Blocks run one after the other, so they may have the same memory. It is not cleared between them,
// as on a GPU.
#define __shared__ static

inline constexpr int warpSize = leeway::emulation::kLanes;

inline void __syncthreads(
    const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  leeway::emulation::wait_for_block(false, place);
}
inline int __syncthreads_count(
    bool counts, const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  return leeway::emulation::wait_for_block(counts, place);
}
inline void __syncwarp(unsigned mask = ~0U, const leeway::emulation::Place& place =
                                                leeway::emulation::Place::current()) {
  leeway::emulation::wait_for_lanes(mask, 0, place);
}

namespace leeway::emulation {

// What lane `from` says; beyond the part of `width` lanes that this one is in, its own value.
template <class Value>
Value shuffled(unsigned mask, Value own, unsigned from, bool is_inside, const Place& place) {
  static_assert(sizeof(Value) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &own, sizeof own);
  const Words& words = wait_for_lanes(mask, word, place);
  if (!is_inside) return own;
  if ((mask >> from & 1U) == 0) fail("a lane reads from one that its mask leaves out");
  std::memcpy(&own, &words[from], sizeof own);
  return own;
}

inline unsigned part_begin(int width) { return lane() & ~(static_cast<unsigned>(width) - 1); }
inline unsigned part_end(int width) { return part_begin(width) + static_cast<unsigned>(width); }

template <class Join>
uint64_t joined(unsigned mask, uint64_t own, const Place& place, const Join& join) {
  const Words& words = wait_for_lanes(mask, own, place);
  uint64_t result = own;
  for (unsigned other = 0; other < kLanes; ++other) {
    if ((mask >> other & 1U) != 0) result = join(result, words[other]);
  }
  return result;
}

}  // namespace leeway::emulation

template <class Value>
Value __shfl_sync(unsigned mask, Value own, int from, int width = warpSize,
                  const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  const unsigned inside = static_cast<unsigned>(from) & (static_cast<unsigned>(width) - 1);
  return leeway::emulation::shuffled(mask, own, leeway::emulation::part_begin(width) + inside, true,
                                     place);
}

template <class Value>
Value __shfl_xor_sync(unsigned mask, Value own, int bits, int width = warpSize,
                      const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  const unsigned from = leeway::emulation::lane() ^ static_cast<unsigned>(bits);
  return leeway::emulation::shuffled(mask, own, from, from < leeway::emulation::part_end(width),
                                     place);
}

template <class Value>
Value __shfl_down_sync(
    unsigned mask, Value own, unsigned distance, int width = warpSize,
    const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  const unsigned from = leeway::emulation::lane() + distance;
  return leeway::emulation::shuffled(mask, own, from, from < leeway::emulation::part_end(width),
                                     place);
}

inline unsigned __ballot_sync(
    unsigned mask, bool own,
    const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  return static_cast<unsigned>(
      leeway::emulation::joined(mask, uint64_t{own} << leeway::emulation::lane(), place,
                                [](uint64_t a, uint64_t b) { return a | b; }));
}

inline unsigned __reduce_max_sync(
    unsigned mask, unsigned own,
    const leeway::emulation::Place& place = leeway::emulation::Place::current()) {
  return static_cast<unsigned>(leeway::emulation::joined(
      mask, own, place, [](uint64_t a, uint64_t b) { return std::max(a, b); }));
}

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
