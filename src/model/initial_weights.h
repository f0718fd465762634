// The weights a run starts from: a function of seed and parameter name, so that every cut of the
// model into stages starts with the same values.
#pragma once

#include <ATen/ATen.h>

#include "model/shape.h"

namespace leeway {

// Normal with standard deviation 0.02, divided by sqrt(2 layers) where a block writes into the
// residual stream (as in GPT-2); norms are one, biases zero. `flat` is on the CPU.
void fill_initial_weights(const at::Tensor& flat, const ModelShape& shape,
                          const ParameterLayout& layout, uint64_t seed);

}  // namespace leeway
