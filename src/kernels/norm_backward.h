// The backward of LayerNorm and RMSNorm with the residual that follows it, in one sweep on a GPU.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

// Rows of activations in the compute type; statistics and gradients of weights in fp32.
struct NormBackward {
  const at::Tensor& dy;
  const at::Tensor& x;
  const at::Tensor& mean;  // undefined: RMSNorm
  const at::Tensor& rstd;
  const at::Tensor& weight;
  const at::Tensor& residual;
  const at::Tensor& dweight;  // is added to
  const at::Tensor& dbias;    // likewise; undefined: the norm has none
};

// dx + residual; undefined where there is no such form, and callers use ATen.
at::Tensor norm_backward_in_one_pass(const NormBackward& a);

}  // namespace leeway
