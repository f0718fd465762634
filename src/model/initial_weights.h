// The weights a run starts from: a function of seed and parameter name, so that every cut of the
// model into stages starts with the same numbers.
#pragma once

#include <ATen/ATen.h>

#include "model/shape.h"

namespace leeway {

// Normal with deviation 0.02, smaller by sqrt(2 layers) where a block writes into the residual
// stream (as GPT-2); norms one, biases zero. `flat` is on the CPU.
void fill_initial_weights(const at::Tensor& flat, const ModelShape& shape,
                          const ParameterLayout& layout, uint64_t seed);

}  // namespace leeway
