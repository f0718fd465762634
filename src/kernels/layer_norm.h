// LayerNorm and RMSNorm in one sweep on a GPU, the backward with the residual that follows it.
#pragma once

#include <ATen/ATen.h>

#include "kernels/columns.h"

namespace leeway {

// Rows of activations in the compute type; statistics and gradients of weights in fp32. Where there
// is no such form, the result is undefined, and callers use ATen.

enum class NormKind { kLayer, kRms };

struct NormResult {
  at::Tensor y;
  at::Tensor mean;  // undefined: RMSNorm
  at::Tensor rstd;
};
NormResult norm_forward_in_one_pass(NormKind kind, const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, double epsilon);

struct NormBackward {
  const at::Tensor& dy;
  const at::Tensor& x;
  const at::Tensor& mean;  // undefined: RMSNorm
  const at::Tensor& rstd;
  const at::Tensor& weight;
  const at::Tensor& residual;  // undefined: zeros
  const at::Tensor& dweight;   // is added to
  const at::Tensor& dbias;     // likewise; undefined: the norm has none
};
// dx + residual. The gradients are there when the sums are finished.
at::Tensor norm_backward_in_one_pass(const NormBackward& a, ColumnSums& sums);

}  // namespace leeway
