// A block takes two rows at a time, a thread eight columns of them: so twice as many reads are
// under way, and a barrier serves both rows. The gradients of the weights are added up in registers
// over all rows of a block, and then over the blocks, in a fixed order.
#include "kernels/cuda_columns.h"
#include "kernels/layer_norm_cuda.h"

namespace leeway::cuda {
namespace {

constexpr int kTogether = 2;  // rows

// Two sums for each of the rows.
struct RowSums {
  float first[kTogether];
  float second[kTogether];
};

// Over all threads of the block. Two places in turn, so that one barrier is enough.
__device__ RowSums block_sums(RowSums own, int turn) {
  __shared__ RowSums warps[2][kRowColumns / kColumns / kWarp];
  for (int other = kWarp / 2; other > 0; other /= 2) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      own.first[i] += __shfl_xor_sync(~0U, own.first[i], other);
      own.second[i] += __shfl_xor_sync(~0U, own.second[i], other);
    }
  }
  if (threadIdx.x % kWarp == 0) warps[turn][threadIdx.x / kWarp] = own;
  __syncthreads();
  RowSums sums = {};
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      sums.first[i] += warps[turn][warp].first[i];
      sums.second[i] += warps[turn][warp].second[i];
    }
  }
  return sums;
}

// The deviations are summed in a second step: a sum of squares alone would lose the digits of a
// mean that is large beside them.
template <int kThreadsMost>
__global__ void __launch_bounds__(kThreadsMost) forward_kernel(const NormForwardPointers p) {
  const int first = static_cast<int>(threadIdx.x) * kColumns;
  const bool has_columns = first < p.columns;
  const float share = 1.0F / static_cast<float>(p.columns);
  Columns weight = {};
  Columns bias = {};
  if (has_columns) weight = columns_at(p.weight, first);
  if (has_columns && p.bias != nullptr) bias = columns_at(p.bias, first);
  int turn = 0;
  for (int64_t row = int64_t{blockIdx.x} * kTogether; row < p.rows;
       row += int64_t{gridDim.x} * kTogether) {
    Columns x[kTogether] = {};
    float mean[kTogether] = {};
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (has_columns && row + i < p.rows) x[i] = columns_at(p.x, (row + i) * p.columns + first);
    }
    if (p.mean != nullptr) {
      RowSums own = {};
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int e = 0; e < kColumns; ++e) own.first[i] += x[i].at[e];
      }
      const RowSums sums = block_sums(own, turn);
      turn ^= 1;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) mean[i] = sums.first[i] * share;
    }
    RowSums own = {};
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        const float deviation = has_columns ? x[i].at[e] - mean[i] : 0;
        own.second[i] += deviation * deviation;
      }
    }
    const RowSums sums = block_sums(own, turn);
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (row + i >= p.rows) break;
      const float rstd = 1.0F / sqrtf(sums.second[i] * share + p.epsilon);
      if (threadIdx.x == 0) {
        p.rstd[row + i] = rstd;
        if (p.mean != nullptr) p.mean[row + i] = mean[i];
      }
      if (!has_columns) continue;
      Columns y;
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        y.at[e] = (x[i].at[e] - mean[i]) * rstd * weight.at[e] + bias.at[e];
      }
      put_columns(y, p.y, (row + i) * p.columns + first);
    }
  }
}

// What a thread has of a row: packed, because two rows of it wait for the sums.
struct BackwardRow {
  PackedColumns dy;
  PackedColumns x;
  PackedColumns residual;
  float mean;
  float rstd;

  __device__ Columns normal() const {
    Columns normal = unpacked(x);
#pragma unroll
    for (int e = 0; e < kColumns; ++e) normal.at[e] = (normal.at[e] - mean) * rstd;
    return normal;
  }
};

__device__ BackwardRow backward_row(const NormBackwardPointers& p, int64_t row, int first) {
  const int64_t position = row * p.columns + first;
  return {.dy = packed_at(p.dy, position),
          .x = packed_at(p.x, position),
          .residual = packed_at(p.residual, position),
          .mean = p.mean == nullptr ? 0 : p.mean[row],
          .rstd = p.rstd[row]};
}

template <int kThreadsMost>
__global__ void __launch_bounds__(kThreadsMost) backward_kernel(const NormBackwardPointers p) {
  const int first = static_cast<int>(threadIdx.x) * kColumns;
  const bool has_columns = first < p.columns;
  const float share = 1.0F / static_cast<float>(p.columns);
  Columns weight = {};
  if (has_columns) weight = columns_at(p.weight, first);
  Columns dweight = {};
  Columns dbias = {};
  int turn = 0;
  for (int64_t row = int64_t{blockIdx.x} * kTogether; row < p.rows;
       row += int64_t{gridDim.x} * kTogether, turn ^= 1) {
    BackwardRow rows[kTogether] = {};  // zeros add nothing
    RowSums own = {};                  // of dy w, and of dy w (x - mean) rstd
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (has_columns && row + i < p.rows) rows[i] = backward_row(p, row + i, first);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const Columns dy = unpacked(rows[i].dy);
      const Columns normal = rows[i].normal();
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        dweight.at[e] += dy.at[e] * normal.at[e];
        dbias.at[e] += dy.at[e];
        own.first[i] += dy.at[e] * weight.at[e];
        own.second[i] += dy.at[e] * weight.at[e] * normal.at[e];
      }
    }
    const RowSums sums = block_sums(own, turn);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (!has_columns || row + i >= p.rows) break;
      const Columns dy = unpacked(rows[i].dy);
      const Columns normal = rows[i].normal();
      const float centre = p.mean == nullptr ? 0 : sums.first[i] * share;
      Columns dx = unpacked(rows[i].residual);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        const float back =
            dy.at[e] * weight.at[e] - centre - normal.at[e] * (sums.second[i] * share);
        dx.at[e] += back * rows[i].rstd;
      }
      put_columns(dx, p.dx, (row + i) * p.columns + first);
    }
  }
  if (!has_columns) return;
  float* const part = p.parts + int64_t{blockIdx.x} * 2 * p.columns + first;
#pragma unroll
  for (int e = 0; e < kColumns; ++e) {
    part[e] = dweight.at[e];
    part[p.columns + e] = dbias.at[e];
  }
}

// Only rows wider than 2,048 need a block so large that its threads run out of registers.
constexpr int kNarrow = 256;
constexpr int kWide = kRowColumns / kColumns;

}  // namespace

void norm_forward(const NormForwardPointers& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for((p.rows + kTogether - 1) / kTogether));
  const unsigned threads = row_threads(p.columns);
  launch(threads <= kNarrow ? forward_kernel<kNarrow> : forward_kernel<kWide>,
         {blocks, threads, stream}, p);
}

int64_t norm_backward_blocks(int64_t rows) {
  const int64_t most = kBlocksMost / 2;  // each writes sums, so no more than a GPU runs at once
  const int64_t pairs = (rows + kTogether - 1) / kTogether;
  return pairs < most ? pairs : most;
}

void norm_backward(const NormBackwardPointers& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(norm_backward_blocks(p.rows));
  const unsigned threads = row_threads(p.columns);
  launch(threads <= kNarrow ? backward_kernel<kNarrow> : backward_kernel<kWide>,
         {blocks, threads, stream}, p);
  add_parts({.parts = p.parts,
             .count = static_cast<int>(blocks),
             .outputs = 2,
             .columns = p.columns,
             .sums = {p.dweight, p.dbias}},
            stream);
}

}  // namespace leeway::cuda
