// The norm of a flat buffer, for clipping.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "base/parameters.h"

namespace leeway {

// Sum of squares of a contiguous fp32 or fp64 buffer, added in fp64. On the CPU the order of the
// additions depends only on the length: same bits for any number of threads.
double squared_norm(const at::Tensor& flat);

// One sum of squares per parameter of the layout. The order of the additions depends only on the
// parameter's length, not on its offset or neighbours: added up in the model's order, they give the
// same bits however the model is cut into stages.
std::vector<double> parameter_squared_norms(const at::Tensor& flat, const ParameterLayout& layout);

// The same with ATen operations, for any device: a few launches and one wait for the results.
std::vector<double> parameter_squared_norms_aten(const at::Tensor& flat,
                                                 const ParameterLayout& layout);

}  // namespace leeway
