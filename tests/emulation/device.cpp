// The GPU that kernels are emulated for, as a device of LibTorch: tensors know that they are there,
// and ATen's operations on them are done by the CPU. Its memory is the host's, between guards.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "../gpu/kernels/gpu.h"
#include "grid.h"
#include "include/kernels/cuda_language.h"

namespace leeway::emulation {
namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr size_t kGuardBytes = 512;    // on each side; so memory is aligned as CUDA's
constexpr std::byte kUnwritten{0xff};  // NaN, if it is read as a number
constexpr std::align_val_t kAlignment{512};

// What is kept in front of the first guard.
struct Head {
  size_t bytes;
};

void release(void* context) {
  auto* const start = static_cast<std::byte*>(context);
  const size_t bytes = reinterpret_cast<const Head*>(start)->bytes;
  const auto check = [](const std::byte* guard, const char* sentence) {
    const auto is_unwritten = [](std::byte byte) { return byte == kUnwritten; };
    if (!std::all_of(guard, guard + kGuardBytes, is_unwritten)) fail(sentence);
  };
  check(start + kGuardBytes, "something was written before the begin of a tensor's memory");
  check(start + 2 * kGuardBytes + bytes, "something was written past the end of a tensor's memory");
  operator delete(context, kAlignment);
}

class GuardedMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const size_t all = bytes + 3 * kGuardBytes;
    auto* const start = static_cast<std::byte*>(operator new(all, kAlignment));
    std::fill(start, start + all, kUnwritten);
    new (start) Head{bytes};
    return {start + 2 * kGuardBytes, start, release, c10::Device(kDevice, 0)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

GuardedMemory memory;

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory,
                                           c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                           at::dtype_or_default(type));
}

// The same memory, as the CPU's.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

// For results that ATen makes without knowing their size.
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    at::TensorImpl* const resized = to.unsafeGetTensorImpl();
    resized->set_storage_keep_dtype(at::empty(from.sizes(), to.options()).storage());
    resized->set_sizes_contiguous(from.sizes());
  }
  return copy_from(from, to, false);
}

void on_the_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<kDevice>);

}  // namespace
}  // namespace leeway::emulation

namespace leeway {

TestGpu test_gpu() {
  return {.is_there = true,
          .device = at::Device(at::kPrivateUse1, 0),
          .blocks_most = cuda::kBlocksMost};
}

}  // namespace leeway
