// A team of warps has a row, one warp if it is at most 1,024 columns wide: then nobody waits at a
// barrier, and the reads of many rows are under way. The gradients of the weights are added up in
// registers over all rows of a team, then over the teams of a block, then over the blocks, in a
// fixed order.
#include <algorithm>

#include "kernels/cuda_columns.h"
#include "kernels/layer_norm_cuda.h"

namespace leeway::cuda {
namespace {

constexpr int kVectorsMost = 4;                                        // of a thread, in a row
constexpr int kWarpColumns = kWarp * kColumns;                         // for each vector
constexpr int kTeamWarps = kRowColumns / kWarpColumns / kVectorsMost;  // at most

// Threads that a processor is to have at once, which says how many registers each may have: enough
// for the sums of its vectors. A block is half of them, unless a row takes more.
constexpr int threads_at_once(int vectors) { return vectors < kVectorsMost ? 512 : 384; }

struct Teams {
  int warps;    // of a team
  int vectors;  // of a thread
  int count;    // in a block

  dim3 threads() const {
    return {static_cast<unsigned>(warps * kWarp), static_cast<unsigned>(count)};
  }
  // In the lists of kernels below. More than one warp: each thread has at least three vectors.
  int form() const { return warps == 1 ? vectors - 1 : vectors + 1; }
};

Teams teams_of(int columns) {
  const auto parts = [](int whole, int part) { return (whole + part - 1) / part; };
  const int warps = parts(columns, kWarpColumns * kVectorsMost);
  const int vectors = parts(columns, kWarpColumns * warps);
  const int block_warps = threads_at_once(vectors) / 2 / kWarp;
  return {.warps = warps, .vectors = vectors, .count = std::max(1, block_warps / warps)};
}

// Where a thread's vectors begin: those of a warp lie side by side, so that it reads without gaps.
template <int kVectors>
__device__ int column_of(int vector) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  return ((warp * kVectors + vector) * kWarp + lane) * kColumns;
}

// What a thread has of a row: packed, because it waits for the sums.
template <int kVectors>
struct RowShare {
  PackedColumns at[kVectors];
};

// Of the numbers from `begin` on, of which there are so many columns; beyond them zeros.
template <int kVectors>
__device__ RowShare<kVectors> share_of(const void* numbers, int64_t begin, int columns) {
  RowShare<kVectors> share = {};
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (column_of<kVectors>(v) < columns) {
      share.at[v] = packed_at(numbers, begin + column_of<kVectors>(v));
    }
  }
  return share;
}

// Over all threads of the team. `turn` is 0 and 1 in turns: with two places one barrier is enough.
template <bool kOneWarp, int kCount>
__device__ void add_over_team(float (&sums)[kCount], int turn) {
  for (int other = kWarp / 2; other > 0; other /= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += __shfl_xor_sync(~0U, sums[i], other);
  }
  if (kOneWarp) return;
  __shared__ float warps[2][kTeamWarps][kCount];
  const unsigned team_warps = blockDim.x / kWarp;
  const unsigned first = threadIdx.y * team_warps;
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) warps[turn][first + threadIdx.x / kWarp][i] = sums[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sums[i] = 0;
    for (unsigned warp = 0; warp < team_warps; ++warp) sums[i] += warps[turn][first + warp][i];
  }
}

// The deviations are summed in a second step: a sum of squares alone would lose the digits of a
// mean that is large beside them. Without sums over rows, twice as many threads have registers.
template <int kVectors, bool kOneWarp>
__global__ void __launch_bounds__(threads_at_once(kVectors), 2)
    forward_kernel(const NormForwardPointers p) {
  const float share = 1.0F / static_cast<float>(p.columns);
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < p.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const bool has_row = row < p.rows;  // a team without one comes to the barriers all the same
    const auto x = share_of<kVectors>(p.x, row * p.columns, has_row ? p.columns : 0);
    float mean[1] = {};
    if (p.mean != nullptr) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const Columns own = unpacked(x.at[v]);
#pragma unroll
        for (int e = 0; e < kColumns; ++e) mean[0] += own.at[e];
      }
      add_over_team<kOneWarp>(mean, turn);
      mean[0] *= share;
      turn ^= 1;
    }
    float squares[1] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Columns own = unpacked(x.at[v]);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        const float deviation = column_of<kVectors>(v) < p.columns ? own.at[e] - mean[0] : 0;
        squares[0] += deviation * deviation;
      }
    }
    add_over_team<kOneWarp>(squares, turn);
    turn ^= 1;
    if (!has_row) continue;
    const float rstd = 1.0F / sqrtf(squares[0] * share + p.epsilon);
    if (threadIdx.x == 0) {
      p.rstd[row] = rstd;
      if (p.mean != nullptr) p.mean[row] = mean[0];
    }
    const auto weight = share_of<kVectors>(p.weight, 0, p.columns);
    RowShare<kVectors> bias = {};
    if (p.bias != nullptr) bias = share_of<kVectors>(p.bias, 0, p.columns);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column_of<kVectors>(v) >= p.columns) break;
      const Columns w = unpacked(weight.at[v]);
      const Columns b = unpacked(bias.at[v]);
      Columns y = unpacked(x.at[v]);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        y.at[e] = (y.at[e] - mean[0]) * rstd * w.at[e] + b.at[e];
      }
      put_columns(y, p.y, row * p.columns + column_of<kVectors>(v));
    }
  }
}

__device__ Columns normal_of(const PackedColumns& x, float mean, float rstd) {
  Columns normal = unpacked(x);
#pragma unroll
  for (int e = 0; e < kColumns; ++e) normal.at[e] = (normal.at[e] - mean) * rstd;
  return normal;
}

// All threads of a block call it: what its teams have added up goes to `part`.
template <int kVectors>
__device__ void put_team_sums(const Columns (&own)[kVectors], int columns, float* part) {
  __shared__ Columns sums[kTeamWarps * kVectors * kWarp];
  const auto team = static_cast<int>(threadIdx.y);
  const auto teams = static_cast<int>(blockDim.y);
  const auto threads = static_cast<int>(blockDim.x);
  __syncthreads();  // whoever used this memory before has read it
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int column = column_of<kVectors>(v);
    if (column < columns) sums[(team * columns + column) / kColumns] = own[v];
  }
  __syncthreads();
  const int first = (team * threads + static_cast<int>(threadIdx.x)) * kColumns;
  for (int column = first; column < columns; column += teams * threads * kColumns) {
    Columns total = {};
    for (int i = 0; i < teams; ++i) add_to(total, sums[(i * columns + column) / kColumns]);
    *reinterpret_cast<Columns*>(part + column) = total;
  }
}

template <int kVectors, bool kOneWarp>
__global__ void __launch_bounds__(threads_at_once(kVectors))
    backward_kernel(const NormBackwardPointers p) {
  const float share = 1.0F / static_cast<float>(p.columns);
  Columns dweight[kVectors] = {};
  Columns dbias[kVectors] = {};
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < p.rows;
       first += int64_t{gridDim.x} * blockDim.y, turn ^= 1) {
    const int64_t row = first + threadIdx.y;
    const bool has_row = row < p.rows;
    const int64_t begin = row * p.columns;
    const int columns = has_row ? p.columns : 0;  // zeros add nothing
    const auto dy = share_of<kVectors>(p.dy, begin, columns);
    const auto x = share_of<kVectors>(p.x, begin, columns);
    RowShare<kVectors> residual = {};
    if (p.residual != nullptr) residual = share_of<kVectors>(p.residual, begin, columns);
    const auto weight = share_of<kVectors>(p.weight, 0, p.columns);
    const float mean = has_row && p.mean != nullptr ? p.mean[row] : 0;
    const float rstd = has_row ? p.rstd[row] : 0;
    float sums[2] = {};  // of dy w, and of dy w (x - mean) rstd
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Columns d = unpacked(dy.at[v]);
      const Columns w = unpacked(weight.at[v]);
      const Columns normal = normal_of(x.at[v], mean, rstd);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        dweight[v].at[e] += d.at[e] * normal.at[e];
        dbias[v].at[e] += d.at[e];
        sums[0] += d.at[e] * w.at[e];
        sums[1] += d.at[e] * w.at[e] * normal.at[e];
      }
    }
    add_over_team<kOneWarp>(sums, turn);
    const float centre = p.mean == nullptr ? 0 : sums[0] * share;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column_of<kVectors>(v) >= columns) break;
      const Columns d = unpacked(dy.at[v]);
      const Columns w = unpacked(weight.at[v]);
      const Columns normal = normal_of(x.at[v], mean, rstd);
      Columns dx = unpacked(residual.at[v]);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) {
        const float back = d.at[e] * w.at[e] - centre - normal.at[e] * (sums[1] * share);
        dx.at[e] += back * rstd;
      }
      put_columns(dx, p.dx, begin + column_of<kVectors>(v));
    }
  }
  float* const part = p.parts + int64_t{blockIdx.x} * 2 * p.columns;
  put_team_sums(dweight, p.columns, part);
  put_team_sums(dbias, p.columns, part + p.columns);
}

constexpr void (*kForward[])(NormForwardPointers) = {
    forward_kernel<1, true>, forward_kernel<2, true>,  forward_kernel<3, true>,
    forward_kernel<4, true>, forward_kernel<3, false>, forward_kernel<4, false>};
constexpr void (*kBackward[])(NormBackwardPointers) = {
    backward_kernel<1, true>, backward_kernel<2, true>,  backward_kernel<3, true>,
    backward_kernel<4, true>, backward_kernel<3, false>, backward_kernel<4, false>};

}  // namespace

void norm_forward(const NormForwardPointers& p, cudaStream_t stream) {
  const Teams teams = teams_of(p.columns);
  const auto blocks = static_cast<unsigned>(blocks_for((p.rows + teams.count - 1) / teams.count));
  launch(kForward[teams.form()], {blocks, teams.threads(), stream}, p);
}

int64_t norm_backward_blocks(int64_t rows, int columns) {
  // Rows of a block: with fewer, its sums would be as many bytes as they.
  const int64_t least = 2 * teams_of(columns).count;
  const int64_t parts = (rows + least - 1) / least;
  return parts < kPartsMost ? parts : kPartsMost;
}

void norm_backward(const NormBackwardPointers& p, cudaStream_t stream) {
  const Teams teams = teams_of(p.columns);
  const auto blocks = static_cast<unsigned>(norm_backward_blocks(p.rows, p.columns));
  launch(kBackward[teams.form()], {blocks, teams.threads(), stream}, p);
}

}  // namespace leeway::cuda
