// The tokens are sorted by id, so that those of one id are a run, and cut into chunks, one for each
// block. A run within a chunk is added to its gradient at once. One that crosses chunks leaves a
// part in each of them, and the block of the chunk that it begins in adds these up: a frequent word
// has thousands of rows, which many blocks read at a time, in an order that is always the same.
#include "kernels/cuda_columns.h"
#include "kernels/embedding_cuda.h"

namespace leeway::cuda {
namespace {

// Parts of a chunk: of a run that began before it, and of one that goes on after it.
enum Part { kBegunBefore, kGoesOn };

__device__ float* part_of(const EmbeddingPointers& p, int chunk, Part part) {
  return p.parts + (int64_t{chunk} * 2 + part) * p.columns;
}

__device__ int end_of(const EmbeddingPointers& p, int chunk) {
  const int end = (chunk + 1) * kEmbeddingChunk;
  return end < p.count ? end : p.count;
}

// Whether the run of the token before `end` goes on there.
__device__ bool goes_on(const EmbeddingPointers& p, int end) {
  return end < p.count && p.ids[end] == p.ids[end - 1];
}

__device__ void add(const Columns& sums, float* to) {
#pragma unroll
  for (int e = 0; e < kColumns; ++e) to[e] += sums.at[e];
}

__device__ void put(const Columns& sums, float* to) {
#pragma unroll
  for (int e = 0; e < kColumns; ++e) to[e] = sums.at[e];
}

__device__ float* gradient_of(const EmbeddingPointers& p, int id) {
  return p.gradients + int64_t{id} * p.columns;
}

__global__ void chunks_kernel(const EmbeddingPointers p) {
  const int first = static_cast<int>(threadIdx.x) * kColumns;
  if (first >= p.columns) return;
  const auto chunk = static_cast<int>(blockIdx.x);
  const int begin = chunk * kEmbeddingChunk;
  const int end = end_of(p, chunk);
  Columns sums = {};
  for (int i = begin; i < end; ++i) {
    add_to(sums, columns_at(p.dy, p.order[i] * p.columns + first));
    const bool more = goes_on(p, i + 1);
    if (more && i + 1 < end) continue;
    const int id = p.ids[i];
    if (begin > 0 && p.ids[begin - 1] == id) {
      put(sums, part_of(p, chunk, kBegunBefore) + first);
    } else if (more) {
      put(sums, part_of(p, chunk, kGoesOn) + first);
    } else {
      add(sums, gradient_of(p, id) + first);
    }
    sums = {};
  }
}

__global__ void crossing_kernel(const EmbeddingPointers p) {
  const int first = static_cast<int>(threadIdx.x) * kColumns;
  if (first >= p.columns) return;
  auto chunk = static_cast<int>(blockIdx.x);
  const int begin = chunk * kEmbeddingChunk;
  int end = end_of(p, chunk);
  const int id = p.ids[end - 1];
  if (!goes_on(p, end) || (begin > 0 && p.ids[begin - 1] == id)) return;  // none begins here
  Columns sums;
#pragma unroll
  for (int e = 0; e < kColumns; ++e) sums.at[e] = part_of(p, chunk, kGoesOn)[first + e];
  do {
    ++chunk;
    end = end_of(p, chunk);
    const float* const part = part_of(p, chunk, kBegunBefore) + first;
#pragma unroll
    for (int e = 0; e < kColumns; ++e) sums.at[e] += part[e];
  } while (p.ids[end - 1] == id && goes_on(p, end));
  add(sums, gradient_of(p, id) + first);
}

}  // namespace

void embedding_backward(const EmbeddingPointers& p, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>((p.count + kEmbeddingChunk - 1) / kEmbeddingChunk);
  const unsigned threads = (p.columns / kColumns + kWarp - 1) / kWarp * kWarp;  // for a whole row
  launch(chunks_kernel, {chunks, threads, stream}, p);
  launch(crossing_kernel, {chunks, threads, stream}, p);
}

}  // namespace leeway::cuda
