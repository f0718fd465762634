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

}  // namespace leeway
