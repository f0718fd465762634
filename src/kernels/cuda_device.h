// What the kernels of this folder share: .cu files include it.
#pragma once

#include <cstdint>

#include "kernels/cuda_language.h"
#include "kernels/subset.h"

namespace leeway::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr float kLog2E = 1.4426950408889634F;

// Blocks for this many pieces of work, each of which one block does.
inline int64_t blocks_for(int64_t pieces) { return pieces < kBlocksMost ? pieces : kBlocksMost; }

inline bool is_aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;  // null is
}

// kWidth neighbouring elements, which move at once: their address is a multiple of their size.
template <class Element, int kWidth>
struct alignas(sizeof(Element) * kWidth) Vector {
  Element at[kWidth];
};

// Loads or stores the first `some` of them; all at once, if that is all. Loops are unrolled: an
// element of a vector is a register only if its index is a constant.
template <int kWidth, class Element>
__device__ Vector<Element, kWidth> load(const Element* from, int some) {
  if (some == kWidth) return *reinterpret_cast<const Vector<Element, kWidth>*>(from);
  Vector<Element, kWidth> vector = {};
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    if (e < some) vector.at[e] = from[e];
  }
  return vector;
}

template <class Element, int kWidth>
__device__ void store(const Vector<Element, kWidth>& vector, int some, Element* to) {
  if (some == kWidth) {
    *reinterpret_cast<Vector<Element, kWidth>*>(to) = vector;
    return;
  }
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    if (e < some) to[e] = vector.at[e];
  }
}

// How many of the kWidth elements from `position` on there are.
template <int kWidth>
__device__ int some_of(int64_t position, int64_t count) {
  const int64_t left = count - position;
  return left >= kWidth ? kWidth : (left > 0 ? static_cast<int>(left) : 0);
}

// Positions of a subset that one block of threads works on together. A run has any length, so the
// place of a position takes a division: one of 64 bits per tile, then cheap ones.
template <int kWidth>
struct Tile {
  static constexpr int kVectors = 4;  // for each thread
  static constexpr int64_t kPositions = int64_t{kThreads} * kVectors * kWidth;

  __device__ Tile(const Subset& from, int64_t tile) : subset(from), first(tile * kPositions) {
    if (subset.is_stretch()) {
      start = subset.begin(0) + first;
      return;
    }
    const int64_t granularity = subset.granularity();
    const bool is_short = first <= UINT32_MAX && granularity <= UINT32_MAX;
    run = is_short ? static_cast<uint32_t>(first) / static_cast<uint32_t>(granularity)
                   : first / granularity;
    skipped = first - run * granularity;
    start = subset.begin(run) + skipped;
  }

  // In the flat buffer: where the position `first + i` is, for i < kPositions.
  __device__ int64_t offset(int i) const {
    const int64_t granularity = subset.granularity();
    const int64_t beyond = skipped + i - granularity;  // the run; less than kPositions
    if (subset.is_stretch() || beyond < 0) return start + i;
    const auto divisor =
        static_cast<uint32_t>(granularity < INT32_MAX ? granularity : int64_t{INT32_MAX});
    const uint32_t runs = static_cast<uint32_t>(beyond) / divisor;
    return subset.begin(run + 1 + runs) + beyond - runs * granularity;
  }

  const Subset& subset;
  int64_t first;        // position
  int64_t run = 0;      // in which it is
  int64_t skipped = 0;  // of that run, before it
  int64_t start = 0;    // where it is in the flat buffer
};

template <int kWidth>
int64_t tiles_of(int64_t count) {
  return (count + Tile<kWidth>::kPositions - 1) / Tile<kWidth>::kPositions;
}

// Two sums that a kernel makes beside its work.
struct Sums {
  double first = 0;
  double second = 0;
};

// All kCount threads of a block call it; the first one gets the totals, added in a fixed order.
template <int kCount = kThreads>
__device__ Sums block_totals(Sums own) {
  constexpr int kWarps = kCount / kWarp;
  __shared__ double firsts[kWarps];
  __shared__ double seconds[kWarps];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    own.first += __shfl_down_sync(0xffffffffU, own.first, distance);
    own.second += __shfl_down_sync(0xffffffffU, own.second, distance);
  }
  __syncthreads();  // whoever used this memory before has read it
  if (threadIdx.x % kWarp == 0) {
    firsts[threadIdx.x / kWarp] = own.first;
    seconds[threadIdx.x / kWarp] = own.second;
  }
  __syncthreads();
  Sums totals;
  if (threadIdx.x != 0) return totals;
  for (int warp = 0; warp < kWarps; ++warp) {
    totals.first += firsts[warp];
    totals.second += seconds[warp];
  }
  return totals;
}

// The totals of `blocks` blocks, as one block of kThreads threads that is alone.
__device__ inline Sums grid_totals(const double* partial, int64_t blocks) {
  Sums own;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) {
    own.first += partial[2 * i];
    own.second += partial[2 * i + 1];
  }
  return block_totals(own);
}

}  // namespace leeway::cuda
