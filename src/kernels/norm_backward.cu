// A block takes rows in turn, a thread eight columns of them. The gradients of the weights are
// added up in registers over all rows of a block, and then over the blocks, in a fixed order.
#include "kernels/bf16.h"
#include "kernels/cuda_device.h"
#include "kernels/norm_backward_cuda.h"

namespace leeway::cuda {
namespace {

using Packed = Vector<uint16_t, kNormWidth>;

// What a GPU has at once: half of the two waves that other kernels have at most.
constexpr int64_t kNormBlocks = kBlocksMost / 2;

struct Columns {
  float at[kNormWidth];
};

__device__ Columns fetched(const void* rows, int64_t row, int columns, int first) {
  const auto* const from = static_cast<const uint16_t*>(rows) + row * columns + first;
  const Packed packed = *reinterpret_cast<const Packed*>(from);
  Columns values;
#pragma unroll
  for (int e = 0; e < kNormWidth; ++e) values.at[e] = bf16_value(packed.at[e]);
  return values;
}

struct RowSums {
  float plain;     // of dy w
  float weighted;  // of dy w (x - mean) rstd
};

// Over all threads of the block. Two places in turn, so that one barrier is enough.
__device__ RowSums block_sums(RowSums own, int turn) {
  __shared__ RowSums warps[2][kNormColumns / kNormWidth / kWarp];
  for (int other = kWarp / 2; other > 0; other /= 2) {
    own.plain += __shfl_xor_sync(~0U, own.plain, other);
    own.weighted += __shfl_xor_sync(~0U, own.weighted, other);
  }
  if (threadIdx.x % kWarp == 0) warps[turn][threadIdx.x / kWarp] = own;
  __syncthreads();
  RowSums sums = {0, 0};
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    sums.plain += warps[turn][warp].plain;
    sums.weighted += warps[turn][warp].weighted;
  }
  return sums;
}

__global__ void rows_kernel(const NormBackwardPointers p) {
  const int first = static_cast<int>(threadIdx.x) * kNormWidth;
  const bool has_columns = first < p.columns;
  const float share = 1.0F / static_cast<float>(p.columns);
  Columns weight = {};
  if (has_columns) weight = fetched(p.weight, 0, p.columns, first);
  Columns dweight = {};
  Columns dbias = {};
  int turn = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x, turn ^= 1) {
    const float mean = p.mean == nullptr ? 0 : p.mean[row];
    const float rstd = p.rstd[row];
    Columns dy = {};
    Columns normal = {};
    RowSums own = {0, 0};
    if (has_columns) {
      dy = fetched(p.dy, row, p.columns, first);
      normal = fetched(p.x, row, p.columns, first);
#pragma unroll
      for (int e = 0; e < kNormWidth; ++e) {
        normal.at[e] = (normal.at[e] - mean) * rstd;
        dweight.at[e] += dy.at[e] * normal.at[e];
        dbias.at[e] += dy.at[e];
        own.plain += dy.at[e] * weight.at[e];
        own.weighted += dy.at[e] * weight.at[e] * normal.at[e];
      }
    }
    const RowSums sums = block_sums(own, turn);
    if (!has_columns) continue;
    const float centre = p.mean == nullptr ? 0 : sums.plain * share;
    const Columns residual = fetched(p.residual, row, p.columns, first);
    Packed dx;
#pragma unroll
    for (int e = 0; e < kNormWidth; ++e) {
      const float back = dy.at[e] * weight.at[e] - centre - normal.at[e] * (sums.weighted * share);
      dx.at[e] = bf16_of(back * rstd + residual.at[e]);
    }
    *reinterpret_cast<Packed*>(static_cast<uint16_t*>(p.dx) + row * p.columns + first) = dx;
  }
  if (!has_columns) return;
  float* const part = p.parts + static_cast<int64_t>(blockIdx.x) * 2 * p.columns + first;
#pragma unroll
  for (int e = 0; e < kNormWidth; ++e) {
    part[e] = dweight.at[e];
    part[p.columns + e] = dbias.at[e];
  }
}

constexpr int kSumRows = 16;

// Blocks along x have 32 columns each, along y dweight and dbias.
__global__ void parts_kernel(const NormBackwardPointers p, int parts) {
  __shared__ float sums[kSumRows][kWarp];
  const int column = static_cast<int>(blockIdx.x) * kWarp + static_cast<int>(threadIdx.x);
  float sum = 0;
  if (column < p.columns) {
    for (int part = static_cast<int>(threadIdx.y); part < parts; part += kSumRows) {
      sum += p.parts[(static_cast<int64_t>(part) * 2 + blockIdx.y) * p.columns + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.columns) return;
  float total = 0;
  for (int i = 0; i < kSumRows; ++i) total += sums[i][threadIdx.x];
  (blockIdx.y == 0 ? p.dweight : p.dbias)[column] += total;
}

}  // namespace

int64_t norm_backward_blocks(int64_t rows) { return rows < kNormBlocks ? rows : kNormBlocks; }

void norm_backward(const NormBackwardPointers& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(norm_backward_blocks(p.rows));
  const unsigned threads = (p.columns / kNormWidth + kWarp - 1) / kWarp * kWarp;
  launch(rows_kernel, {blocks, threads, stream}, p);
  const dim3 grid((p.columns + kWarp - 1) / kWarp, p.dbias == nullptr ? 1 : 2);
  launch(parts_kernel, {grid, dim3(kWarp, kSumRows), stream}, p, static_cast<int>(blocks));
}

}  // namespace leeway::cuda
