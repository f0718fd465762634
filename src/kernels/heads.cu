#include "kernels/cuda_columns.h"
#include "kernels/heads_cuda.h"

namespace leeway::cuda {
namespace {

// Eight columns of each half of a head.
struct Pair {
  Columns low;
  Columns high;
};

__device__ Pair turned(const Pair& pair, const Columns& cosine, const Columns& sine,
                       float direction) {
  Pair result;
#pragma unroll
  for (int e = 0; e < kColumns; ++e) {
    const float s = sine.at[e] * direction;
    result.low.at[e] = pair.low.at[e] * cosine.at[e] - pair.high.at[e] * s;
    result.high.at[e] = pair.high.at[e] * cosine.at[e] + pair.low.at[e] * s;
  }
  return result;
}

template <bool kSums>
__global__ void __launch_bounds__(kStripThreads* kStripRows)
    move_kernel(const __grid_constant__ HeadPointers p, int threads) {
  const int half = p.head_size / 2;
  const int threads_of_head = half / kColumns;
  const bool has_columns = strip_thread() < threads;
  const int head = strip_thread() / threads_of_head;
  const int first = strip_thread() % threads_of_head * kColumns;
  const bool turns = head < p.turned_heads;
  int own_head = head;  // among those of its source
  int source = 0;
  while (source < 2 && own_head >= p.from[source].heads) own_head -= p.from[source++].heads;
  const HeadSource from = source == 0 ? p.from[0] : (source == 1 ? p.from[1] : p.from[2]);
  const int64_t column = int64_t{head} * p.head_size + first;

  Pair sums = {};
  for (int64_t row = first_row(); has_columns && row < p.row_count; row += row_step()) {
    // Of 32 bits, which has_column_form() makes sure of: a division of 64 takes ten times as long.
    const uint32_t batch = static_cast<uint32_t>(row) / static_cast<uint32_t>(p.time);
    const int64_t time = row - int64_t{batch} * p.time;
    const int64_t position =
        batch * from.batch_stride + own_head * from.head_stride + time * from.time_stride + first;
    Pair pair = {columns_at(from.numbers, position), columns_at(from.numbers, position + half)};
    if (turns) {
      const int64_t angle = time * half + first;
      pair = turned(pair, columns_at(p.cosine, angle), columns_at(p.sine, angle), p.direction);
    }
    put_columns(pair.low, p.rows, row * p.columns + column);
    put_columns(pair.high, p.rows, row * p.columns + column + half);
    if (kSums) {
      add_to(sums.low, pair.low);
      add_to(sums.high, pair.high);
    }
  }
  if (!kSums) return;
  float* const part = p.parts + int64_t{blockIdx.y} * p.columns + column;
  put_part(sums.low, has_columns ? part : nullptr);
  put_part(sums.high, has_columns ? part + half : nullptr);
}

}  // namespace

void move_heads(const HeadPointers& p, cudaStream_t stream) {
  const int threads = head_threads(heads_of(p), p.head_size);
  const auto kernel = p.parts == nullptr ? move_kernel<false> : move_kernel<true>;
  launch(kernel, strip_grid(threads, p.row_count, stream), p, threads);
}

}  // namespace leeway::cuda
