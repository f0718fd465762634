// Launchers of columns.cu, and how rows of bf16 numbers are cut into strips and parts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace leeway::cuda {

inline constexpr int kColumns = 8;                   // of a thread: 16 bytes
inline constexpr int kRowColumns = kColumns * 1024;  // at most, where a block has a whole row
inline constexpr int kStripThreads = 32;
inline constexpr int kStripRows = 8;

// For this many threads along the columns.
inline int strips_of(int threads) { return (threads + kStripThreads - 1) / kStripThreads; }
// In how many parts the rows are summed. It does not depend on the GPU, so sums have one order.
int row_parts(int threads, int64_t rows);

// sums[o][column] += the parts' sums. `parts`: [count, outputs, columns]; at most two outputs.
struct PartPointers {
  const float* parts = nullptr;
  int count = 0;
  int outputs = 1;
  int columns = 0;
  float* sums[2] = {nullptr, nullptr};  // null: this one is not wanted
};
void add_parts(const PartPointers& p, cudaStream_t stream);

// sums[column] += the sum of the rows. `parts`: [row_parts(columns / kColumns, rows), columns].
struct ColumnSumPointers {
  const void* numbers = nullptr;
  int64_t rows = 0;
  int columns = 0;
  float* parts = nullptr;
  float* sums = nullptr;
};
void add_column_sums(const ColumnSumPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
