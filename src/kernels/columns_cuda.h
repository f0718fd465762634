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

// sums[o][column] += the sum of the parts' [o][column]. `parts`: [count, outputs, columns].
inline constexpr int kPartOutputsMost = 2;
struct PartPointers {
  const float* parts = nullptr;
  int count = 0;
  int outputs = 1;
  int columns = 0;
  float* sums[kPartOutputsMost] = {};  // null: this one is not wanted
};
// Several at once: each is a small piece of work.
inline constexpr int kPartSetsMost = 8;
struct PartSets {
  PartPointers at[kPartSetsMost] = {};
  int count = 0;
};
void add_parts(const PartSets& sets, cudaStream_t stream);

// parts[part][column] = the sums of the rows of each part: [row_parts(columns / kColumns, rows),
// columns]. All sets have the same size.
inline constexpr int kRowSetsMost = 4;
struct RowSets {
  struct {
    const void* numbers = nullptr;
    float* parts = nullptr;
  } at[kRowSetsMost] = {};
  int count = 0;
  int64_t rows = 0;
  int columns = 0;
};
void sum_rows(const RowSets& sets, cudaStream_t stream);

}  // namespace leeway::cuda
