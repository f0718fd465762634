#include "kernels/cuda_columns.h"

namespace leeway::cuda {
namespace {

// A thread adds up one in so many parts, and reads several before it adds: one after the other,
// they would mostly wait.
constexpr int kSumRows = 32;
constexpr int kPartsAtOnce = 12;

__host__ __device__ int column_blocks(const PartPointers& p) {
  return (p.columns + kWarp - 1) / kWarp;
}

// Blocks have 32 columns of an output of a set: set after set, and output after output.
__global__ void __launch_bounds__(kWarp* kSumRows)
    parts_kernel(const __grid_constant__ PartSets sets) {
  __shared__ float sums[kSumRows][kWarp];
  auto block = static_cast<int>(blockIdx.x);
  int set = 0;
  while (block >= column_blocks(sets.at[set]) * sets.at[set].outputs) {
    block -= column_blocks(sets.at[set]) * sets.at[set].outputs;
    ++set;
  }
  const PartPointers& p = sets.at[set];
  const int output = block / column_blocks(p);
  const int column = block % column_blocks(p) * kWarp + static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int first = static_cast<int>(threadIdx.y); column < p.columns && first < p.count;
       first += kSumRows * kPartsAtOnce) {
    float some[kPartsAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const int part = first + i * kSumRows;
      if (part >= p.count) continue;
      some[i] = p.parts[(int64_t{part} * p.outputs + output) * p.columns + column];
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) sum += some[i];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  float* const totals = p.sums[output];
  if (threadIdx.y != 0 || column >= p.columns || totals == nullptr) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kSumRows; ++i) total += sums[i][threadIdx.x];
  totals[column] += total;
}

// Several rows at a time, so that enough reads are under way.
constexpr int kRowsAtOnce = 4;

__global__ void __launch_bounds__(kStripThreads* kStripRows)
    column_sums_kernel(const __grid_constant__ RowSets p) {
  const auto& set = p.at[blockIdx.z];
  const int first = strip_thread() * kColumns;
  const bool has_columns = first < p.columns;
  Columns sums = {};
  const int64_t step = row_step();
  for (int64_t row = first_row(); has_columns && row < p.rows; row += kRowsAtOnce * step) {
    Columns rows[kRowsAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (row + i * step < p.rows) {
        rows[i] = columns_at(set.numbers, (row + i * step) * p.columns + first);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) add_to(sums, rows[i]);
  }
  put_part(sums, has_columns ? set.parts + int64_t{blockIdx.y} * p.columns + first : nullptr);
}

}  // namespace

int row_parts(int threads, int64_t rows) {
  constexpr int64_t kRowsLeast = 4 * kStripRows;  // else the sums cost as much as the rows
  const int64_t parts = (rows + kRowsLeast - 1) / kRowsLeast;
  const int64_t most = kBlocksMost / 2 / strips_of(threads);
  if (most < 1) return 1;
  return static_cast<int>(parts < most ? parts : most);
}

void add_parts(const PartSets& sets, cudaStream_t stream) {
  int blocks = 0;
  for (int i = 0; i < sets.count; ++i) blocks += column_blocks(sets.at[i]) * sets.at[i].outputs;
  launch(parts_kernel, {dim3(blocks), dim3(kWarp, kSumRows), stream}, sets);
}

void sum_rows(const RowSets& sets, cudaStream_t stream) {
  Grid grid = strip_grid(sets.columns / kColumns, sets.rows, stream);
  grid.blocks.z = sets.count;
  launch(column_sums_kernel, grid, sets);
}

}  // namespace leeway::cuda
