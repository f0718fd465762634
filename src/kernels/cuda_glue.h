// For the functions of this folder that take tensors: how they call a kernel of a GPU, or what they
// say where there is none.
#pragma once

#include <ATen/core/Tensor.h>

#if LEEWAY_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "base/check.h"

namespace leeway {

// A GPU is refused before, where a run begins.
inline constexpr const char* kNoCuda = "this build has no kernels for GPUs";
#if LEEWAY_CUDA
#define LEEWAY_CUDA_TWIN(...) __VA_ARGS__
#else
#define LEEWAY_CUDA_TWIN(...) LEEWAY_UNREACHABLE(kNoCuda)
#endif

// The one choice between twins: what is not on the CPU is a GPU's.
inline bool is_on_gpu(const at::Tensor& tensor) { return !tensor.is_cpu(); }

#if LEEWAY_CUDA
// Makes the tensor's GPU the current one. Kernels run on the stream that is current there, as those
// of ATen do: so memory that ATen hands out and takes back stays in order.
class CudaScope {
 public:
  explicit CudaScope(const at::Tensor& tensor)
      : device_(tensor.device()),
        guard_(device_),
        stream_(c10::cuda::getCurrentCUDAStream(device_.index()).stream()) {}

  cudaStream_t stream() const { return stream_; }
  // Where a tensor of this GPU is; null if it is undefined. A kernel cannot check that.
  template <class Scalar>
  Scalar* data(const at::Tensor& tensor) const {
    if (!tensor.defined()) return nullptr;
    LEEWAY_CHECK(tensor.device() == device_, "a kernel's tensors are on its GPU");
    return static_cast<Scalar*>(tensor.mutable_data_ptr());
  }

 private:
  at::Device device_;
  c10::cuda::CUDAGuard guard_;
  cudaStream_t stream_;
};
#endif

}  // namespace leeway
