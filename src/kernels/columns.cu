#include "kernels/cuda_columns.h"

namespace leeway::cuda {
namespace {

// A thread adds up one in so many parts, and reads several before it adds: one after the other,
// they would mostly wait.
constexpr int kSumRows = 32;
constexpr int kPartsAtOnce = 12;

// Blocks along x have 32 columns each, along y the outputs.
__global__ void __launch_bounds__(kWarp* kSumRows) parts_kernel(const PartPointers p) {
  __shared__ float sums[kSumRows][kWarp];
  const int column = static_cast<int>(blockIdx.x) * kWarp + static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int first = static_cast<int>(threadIdx.y); column < p.columns && first < p.count;
       first += kSumRows * kPartsAtOnce) {
    float some[kPartsAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const int part = first + i * kSumRows;
      if (part >= p.count) continue;
      some[i] = p.parts[(int64_t{part} * p.outputs + blockIdx.y) * p.columns + column];
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) sum += some[i];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  float* const totals = blockIdx.y == 0 ? p.sums[0] : p.sums[1];
  if (threadIdx.y != 0 || column >= p.columns || totals == nullptr) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kSumRows; ++i) total += sums[i][threadIdx.x];
  totals[column] += total;
}

// Several rows at a time, so that enough reads are under way.
constexpr int kRowsAtOnce = 4;

__global__ void __launch_bounds__(kStripThreads* kStripRows)
    column_sums_kernel(const ColumnSumPointers p) {
  const int first = strip_thread() * kColumns;
  const bool has_columns = first < p.columns;
  Columns sums = {};
  const int64_t step = row_step();
  for (int64_t row = first_row(); has_columns && row < p.rows; row += kRowsAtOnce * step) {
    Columns rows[kRowsAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (row + i * step < p.rows) {
        rows[i] = columns_at(p.numbers, (row + i * step) * p.columns + first);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) add_to(sums, rows[i]);
  }
  put_part(sums, has_columns ? p.parts + int64_t{blockIdx.y} * p.columns + first : nullptr);
}

}  // namespace

int row_parts(int threads, int64_t rows) {
  constexpr int64_t kRowsLeast = 4 * kStripRows;  // else the sums cost as much as the rows
  const int64_t parts = (rows + kRowsLeast - 1) / kRowsLeast;
  const int64_t most = kBlocksMost / 2 / strips_of(threads);
  if (most < 1) return 1;
  return static_cast<int>(parts < most ? parts : most);
}

void add_parts(const PartPointers& p, cudaStream_t stream) {
  const dim3 grid((p.columns + kWarp - 1) / kWarp, p.outputs);
  launch(parts_kernel, {grid, dim3(kWarp, kSumRows), stream}, p);
}

void add_column_sums(const ColumnSumPointers& p, cudaStream_t stream) {
  const int threads = p.columns / kColumns;
  launch(column_sums_kernel, strip_grid(threads, p.rows, stream), p);
  add_parts({.parts = p.parts,
             .count = row_parts(threads, p.rows),
             .columns = p.columns,
             .sums = {p.sums}},
            stream);
}

}  // namespace leeway::cuda
