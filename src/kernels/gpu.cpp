#include "kernels/gpu.h"

#if LEEWAY_CUDA
#include <cuda_runtime_api.h>
#endif

namespace leeway {
namespace {

// 0: there is no such GPU.
int compute_capability([[maybe_unused]] int index) {
  int major = 0;
#if LEEWAY_CUDA
  const auto status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  if (status != cudaSuccess) return 0;
#endif
  return major;
}

}  // namespace

bool has_kernels_for(int index) { return compute_capability(index) >= 8; }

bool is_hopper(int index) { return compute_capability(index) == 9; }

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
