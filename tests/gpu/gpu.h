// What the tests of a GPU share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

namespace leeway {

inline bool has_gpu() { return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0; }

}  // namespace leeway

#define LEEWAY_NEEDS_GPU() \
  if (!leeway::has_gpu()) GTEST_SKIP() << "needs a GPU"
