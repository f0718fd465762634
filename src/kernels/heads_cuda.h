// Launcher of heads.cu. All numbers are bf16; half a head is whole vectors of columns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/columns_cuda.h"

namespace leeway::cuda {

// Where the heads of q, k or v are; a head's own numbers follow each other.
struct HeadSource {
  const void* numbers = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t time_stride = 0;
  int heads = 0;
};

// Moves heads into rows, and turns the first of them. Rows may be where the heads are already.
struct HeadPointers {
  HeadSource from[3] = {};  // in the order of the columns
  void* rows = nullptr;
  int64_t row_count = 0;  // tokens
  int columns = 0;        // of a whole row
  int head_size = 0;
  int time = 0;
  int turned_heads = 0;
  const void* cosine = nullptr;  // [time, head_size / 2]
  const void* sine = nullptr;
  float direction = 1;
  float* parts = nullptr;  // sums of rows, [row_parts(head_threads(), row_count), columns]; or null
};
inline int heads_of(const HeadPointers& p) {
  return p.from[0].heads + p.from[1].heads + p.from[2].heads;
}
// A thread has eight columns of each half of a head.
inline int head_threads(int heads, int head_size) { return heads * (head_size / 2 / kColumns); }
void move_heads(const HeadPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
