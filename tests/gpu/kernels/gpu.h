// What the tests of kernels share. They run twice: here on a real GPU, and in tests/emulation on
// one that the CPU emulates.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace leeway {

struct TestGpu {
  bool is_there = false;
  at::Device device;
  int64_t blocks_most = 0;  // kernels have at most this many blocks (kernels/cuda_language.h)
};
TestGpu test_gpu();

// Without a GPU the test is skipped.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_gpu().is_there) GTEST_SKIP() << "needs a GPU";
  }
};

inline at::Tensor to_gpu(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(test_gpu().device) : tensor;
}

// A copy on the GPU that begins `skipped` elements after a multiple of 16 bytes.
inline at::Tensor on_gpu(const at::Tensor& tensor, int64_t skipped = 0) {
  if (!tensor.defined()) return {};
  const at::Tensor place =
      at::empty({tensor.numel() + skipped}, tensor.options().device(test_gpu().device));
  const at::Tensor view = place.narrow(0, skipped, tensor.numel());
  view.copy_(tensor);
  return view;
}

inline at::Tensor bits_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  switch (host.element_size()) {
    case 2:
      return host.view(at::kShort);
    case 4:
      return host.view(at::kInt);
    case 8:
      return host.view(at::kLong);
    default:
      return host;
  }
}

inline testing::AssertionResult same_bits(const at::Tensor& ours, const at::Tensor& theirs) {
  if (ours.defined() != theirs.defined()) return testing::AssertionFailure() << "one is missing";
  if (!ours.defined()) return testing::AssertionSuccess();
  const at::Tensor left = bits_of(ours);
  const at::Tensor right = bits_of(theirs);
  if (left.numel() != right.numel()) return testing::AssertionFailure() << "other sizes";
  if (at::equal(left, right)) return testing::AssertionSuccess();
  const at::Tensor wrong = (left != right).nonzero().flatten();
  return testing::AssertionFailure() << wrong.numel() << " of " << left.numel()
                                     << " differ, the first at " << wrong[0].item<int64_t>();
}

}  // namespace leeway
