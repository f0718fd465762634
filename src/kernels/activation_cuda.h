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
  // Not for SwiGLU: the sums of dx. `parts` is scratch, [row_parts(hidden / kColumns, rows),
  // hidden]
  float* parts = nullptr;
  float* dbias = nullptr;  // null: no sums
};
void activation_forward(Activation activation, const ActivationPointers& p, cudaStream_t stream);
// Makes y again beside dx.
void activation_backward(Activation activation, const ActivationPointers& p, cudaStream_t stream);

}  // namespace leeway::cuda
