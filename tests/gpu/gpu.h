// What the tests of a GPU share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

namespace leeway {

// Without a GPU the test is skipped.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0) {
      GTEST_SKIP() << "needs a GPU";
    }
  }
};

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
