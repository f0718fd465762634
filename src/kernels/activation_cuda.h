// Launchers of activation.cu. All rows are bf16, with whole vectors of columns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "config/choices.h"

namespace leeway::cuda {

struct ActivationPointers {
  const void* x = nullptr;   // [rows, hidden], SwiGLU: [rows, 2 hidden]
  const void* dy = nullptr;  // backward only: [rows, hidden]
  void* y = nullptr;         // [rows, hidden]
  void* dx = nullptr;        // backward only, as x
  int64_t rows = 0;
  int hidden = 0;
  // Not for SwiGLU: sums of dx, [row_parts(hidden / kColumns, rows), hidden]; null: none.
  float* parts = nullptr;
};
void activation_forward(Activation activation, const ActivationPointers& p, cudaStream_t stream);
// Makes y again beside dx.
void activation_backward(Activation activation, const ActivationPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
