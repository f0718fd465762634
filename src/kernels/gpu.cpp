#include "kernels/gpu.h"

#if LEEWAY_CUDA
#include <cuda_runtime_api.h>
#endif

namespace leeway {

bool has_kernels_for([[maybe_unused]] int index) {
#if LEEWAY_CUDA
  constexpr int kOldest = 8;
  int major = 0;
  const auto status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  return status == cudaSuccess && major >= kOldest;
#else
  return false;
#endif
}

double gpu_memory_bytes([[maybe_unused]] int index) {
#if LEEWAY_CUDA
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return 0;
  return static_cast<double>(properties.totalGlobalMem);
#else
  return 0;
#endif
}

}  // namespace leeway
