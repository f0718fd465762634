// Rows of bf16 numbers, of which a thread has eight neighbouring columns, as fp32 while it works on
// them; and sums over the rows, in an order that does not depend on the GPU.
//
// A grid has strips of columns along x and parts of the rows along y. Only .cu files include it.
#pragma once

#include "kernels/columns_cuda.h"
#include "kernels/cuda_device.h"

namespace leeway::cuda {

// Two numbers in each word: as single numbers they would take a register each.
using PackedColumns = Vector<uint32_t, kColumns / 2>;

using Columns = Vector<float, kColumns>;

__device__ inline PackedColumns packed_at(const void* numbers, int64_t position) {
  const auto* const from = static_cast<const uint16_t*>(numbers) + position;
  return *reinterpret_cast<const PackedColumns*>(from);
}

__device__ inline Columns unpacked(const PackedColumns& packed) {
  Columns columns;
#pragma unroll
  for (int e = 0; e < kColumns; e += 2) {
    columns.at[e] = __uint_as_float(packed.at[e / 2] << 16U);
    columns.at[e + 1] = __uint_as_float(packed.at[e / 2] & 0xffff0000U);
  }
  return columns;
}

__device__ inline Columns columns_at(const void* numbers, int64_t position) {
  return unpacked(packed_at(numbers, position));
}

__device__ inline void put_columns(const Columns& columns, void* numbers, int64_t position) {
  PackedColumns packed;
#pragma unroll
  for (int e = 0; e < kColumns; e += 2) {
    packed.at[e / 2] = bf16_pair(columns.at[e], columns.at[e + 1]);
  }
  *reinterpret_cast<PackedColumns*>(static_cast<uint16_t*>(numbers) + position) = packed;
}

__device__ inline void add_to(Columns& sums, const Columns& columns) {
#pragma unroll
  for (int e = 0; e < kColumns; ++e) sums.at[e] += columns.at[e];
}

inline Grid strip_grid(int threads, int64_t rows, cudaStream_t stream) {
  const auto strips = static_cast<unsigned>(strips_of(threads));
  return {{strips, static_cast<unsigned>(row_parts(threads, rows))},
          {kStripThreads, kStripRows},
          stream};
}

// Which of the threads along the columns this one is, and the rows that it takes.
__device__ inline int strip_thread() {
  return static_cast<int>(blockIdx.x * kStripThreads + threadIdx.x);
}
__device__ inline int64_t first_row() { return int64_t{blockIdx.y} * kStripRows + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t{gridDim.y} * kStripRows; }

// All threads of a block call it: what those of one strip thread have added up goes to `to`, its
// place in the block's part, a multiple of its size; null: it has no columns.
__device__ inline void put_part(const Columns& own, float* to) {
  __shared__ Columns sums[kStripRows][kStripThreads];
  __syncthreads();  // whoever used this memory before has read it
  sums[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.y != 0 || to == nullptr) return;
  Columns total = {};
  for (int row = 0; row < kStripRows; ++row) add_to(total, sums[row][threadIdx.x]);
  *reinterpret_cast<Columns*>(to) = total;
}

}  // namespace leeway::cuda
