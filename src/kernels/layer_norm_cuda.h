// Launchers of layer_norm.cu. Activations and weights are bf16, rows at most kRowColumns wide.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace leeway::cuda {

struct NormForwardPointers {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;  // null: none
  float epsilon = 0;
  void* y = nullptr;
  float* mean = nullptr;  // null: RMSNorm
  float* rstd = nullptr;
  int64_t rows = 0;
  int columns = 0;
};
void norm_forward(const NormForwardPointers& p, cudaStream_t stream);

// Sums over the rows are made in so many parts, whatever the GPU: their order is fixed.
int64_t norm_backward_blocks(int64_t rows, int columns);

struct NormBackwardPointers {
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;  // null: RMSNorm
  const float* rstd = nullptr;
  const void* weight = nullptr;
  const void* residual = nullptr;  // null: zeros
  void* dx = nullptr;
  float* parts = nullptr;  // [norm_backward_blocks(), 2, columns]: of dweight, and of dbias
  int64_t rows = 0;
  int columns = 0;
};
void norm_backward(const NormBackwardPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
