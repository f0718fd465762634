// Launcher of embedding.cu. dy is bf16 with whole vectors of columns, at most kRowColumns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace leeway::cuda {

inline constexpr int kEmbeddingChunk = 32;  // tokens

struct EmbeddingPointers {
  const int* ids = nullptr;        // ascending
  const int64_t* order = nullptr;  // which row of dy each of them is
  int count = 0;
  const void* dy = nullptr;
  int columns = 0;
  float* parts = nullptr;  // scratch, [chunks, 2, columns]
  float* gradients = nullptr;
};
void embedding_backward(const EmbeddingPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
