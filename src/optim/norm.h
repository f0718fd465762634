// The norm of a flat buffer, for clipping.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "base/parameters.h"

namespace leeway {

// Sum of squares of a contiguous fp32 or fp64 buffer, added in fp64. On the CPU the order of the
// additions depends on the length alone: same bits whatever the threads.
double squared_norm(const at::Tensor& flat);

// One sum of squares per parameter of the layout. The order of the additions depends on the
// parameter's length alone, not on where it lies nor on what is beside it: added up in the model's
// order they give the same bits however the model is cut into stages.
std::vector<double> parameter_squared_norms(const at::Tensor& flat, const ParameterLayout& layout);

// The same with ATen operations, for any device: a few launches and one wait for the results.
std::vector<double> parameter_squared_norms_aten(const at::Tensor& flat,
                                                 const ParameterLayout& layout);

}  // namespace leeway
