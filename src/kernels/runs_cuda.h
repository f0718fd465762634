// Copies between a flat buffer and a compact one, on a GPU. Raw pointers: nvcc sees no LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/subset.h"

namespace leeway {

struct CopiedRuns {
  void* flat = nullptr;
  void* compact = nullptr;
  int64_t element_bytes = 4;  // 2, 4 or 8
  cudaStream_t stream = nullptr;
};
void gather_cuda(const Subset& subset, const CopiedRuns& copied);
void scatter_cuda(const Subset& subset, const CopiedRuns& copied);

}  // namespace leeway
