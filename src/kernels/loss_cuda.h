// Launcher of loss.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace leeway::cuda {

struct LossPointers {
  void* logits = nullptr;  // [rows, columns], bf16 or fp32
  bool half = false;
  const int64_t* targets = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t vocabulary = 0;
  float* losses = nullptr;  // one per row
  bool gradient = false;    // logits become share * (probabilities - 1 at the target), padding 0
  float share = 0;
};
void cross_entropy(const LossPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
