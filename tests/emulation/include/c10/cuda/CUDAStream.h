// Stands in for LibTorch's header of this name, for kernels/cuda_glue.h.
#pragma once

#include <c10/core/Device.h>

#include "cuda_runtime_api.h"

namespace c10::cuda {

struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
};

inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex /*index*/) { return {}; }

}  // namespace c10::cuda
