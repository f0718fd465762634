// The norm of a flat buffer, for clipping.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

// Sum of squares of a contiguous fp32 or fp64 buffer, added in fp64. On the CPU the order of the
// additions depends on the length alone: same bits whatever the threads.
double squared_norm(const at::Tensor& flat);

}  // namespace leeway
