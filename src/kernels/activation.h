// The non-linearities between the up and the down product.
#pragma once

#include <ATen/ATen.h>

#include "config/choices.h"
#include "kernels/columns.h"

namespace leeway {

// SwiGLU halves its input's width: x = [gate, up] per row, y = silu(gate) up. GELU is the tanh
// form.
at::Tensor activation_forward(Activation activation, const at::Tensor& x);

// Whether the backward makes y again, in the same sweep: then a forward need not keep it.
bool activation_repeats(Activation activation, const at::Tensor& x);

struct ActivationGradient {
  at::Tensor dx;
  at::Tensor y;  // undefined unless activation_repeats()
};
// `bias` gets the sums of dx.
ActivationGradient activation_backward(Activation activation, const at::Tensor& x,
                                       const at::Tensor& dy, const BiasSums& bias);

}  // namespace leeway
