// Ternary blocks (kernels/wire_loops.h) as kernels read them on the way: .cu files include it.
#pragma once

#include <cstdint>

#include "kernels/cuda_device.h"

namespace leeway::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;
inline constexpr int kScaleBytes = 4;
inline constexpr int kNumbers = 512;  // in a whole block
inline constexpr int kCodes = 103;    // bytes of a whole block after its scale
inline constexpr int kBlockBytes = kScaleBytes + kCodes;
inline constexpr int kPlanes = 5;  // values per byte

__host__ __device__ inline int64_t wire_blocks_of(int64_t count) {
  return (count + kNumbers - 1) / kNumbers;
}

__device__ inline int numbers_in(int64_t block, int64_t count) {
  return some_of<kNumbers>(block * kNumbers, count);
}

__device__ inline int codes_of(int numbers) { return (numbers + kPlanes - 1) / kPlanes; }

// A place in shared memory for each number of a block, and for the padding of its last bytes. A
// digit is its value plus 1.
struct alignas(4) Digits {
  uint8_t at[kNumbers + 16];
};

// A block that so many threads of a warp read together: all of them make one. A block that nobody
// could have encoded is zeros: no host has looked at it. kWhole: it has kNumbers numbers, which
// spares a branch at each of them.
template <int kReaders, bool kWhole>
struct ReadBlock {
  static constexpr int kOwnBytes = (kCodes + kReaders - 1) / kReaders;

  __device__ ReadBlock(const uint8_t* encoded, int numbers)
      : lane(static_cast<int>(threadIdx.x) % kReaders), bytes(kWhole ? kCodes : codes_of(numbers)) {
    bool wrong = false;
#pragma unroll
    for (int j = 0; j < kOwnBytes; ++j) {
      const int k = j * kReaders + lane;
      codes[j] = k < bytes ? encoded[kScaleBytes + k] : 0;
      wrong = wrong || codes[j] >= 243;
    }
    uint32_t bits = 0;
    for (int byte = 0; byte < kScaleBytes && numbers > 0; ++byte) {
      bits |= static_cast<uint32_t>(encoded[byte]) << (8 * byte);
    }
    scale = __uint_as_float(bits);
    wrong = wrong || !isfinite(scale) || scale < 0;
    const unsigned among = __ballot_sync(kAllLanes, wrong);
    const unsigned first = threadIdx.x % kWarp / kReaders * kReaders;
    if ((among >> first & kAllLanes >> (kWarp - kReaders)) == 0) return;
    scale = 0;
#pragma unroll
    for (int j = 0; j < kOwnBytes; ++j) codes[j] = 1 + 3 + 9 + 27 + 81;
  }

  // Calls each(index, digit) for those that this thread has, in the order in which they lie in
  // memory; the last may be padding.
  template <class Each>
  __device__ void for_digits(const Each& each) const {
    uint32_t rest[kOwnBytes];
#pragma unroll
    for (int j = 0; j < kOwnBytes; ++j) rest[j] = codes[j];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll
      for (int j = 0; j < kOwnBytes; ++j) {
        const int k = j * kReaders + lane;
        const uint32_t third = (rest[j] * 171) >> 9;  // rest / 3 for any byte
        if (k < bytes) each(plane * bytes + k, rest[j] - 3 * third);
        rest[j] = third;
      }
    }
  }

  // Whoever reads them waits for the warp first.
  __device__ void write(Digits& digits) const {
    for_digits([&](int i, uint32_t digit) { digits.at[i] = static_cast<uint8_t>(digit); });
  }

  int lane;
  int bytes;
  uint32_t codes[kOwnBytes];
  float scale = 0;
};

__device__ inline float ternary_value(uint32_t digit, float scale) {
  return static_cast<float>(static_cast<int>(digit) - 1) * scale;
}

}  // namespace leeway::cuda
