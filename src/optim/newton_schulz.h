// Muon's orthogonalization: what is left of a matrix when its singular values are pushed to 1.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

// Everything the iteration needs for k matrices of one shape, made once and used at every update.
// `x` holds the matrices on entry.
struct NewtonSchulzScratch {
  at::Tensor x;           // [k, rows, cols]
  at::Tensor next;        // [k, rows, cols]
  at::Tensor gram;        // [k, n, n], n the smaller of rows and cols
  at::Tensor polynomial;  // [k, n, n]
  at::Tensor norm;        // [k, 1, 1]
};

// What Newton-Schulz computes in. On a GPU fp32 weights are orthogonalized in bf16: the iteration
// leaves singular values anywhere in 0.7 to 1.2, so bf16's error is lost in its own, at a fraction
// of the time. On the CPU, where we are compared with a reference, in the weights' own type.
at::ScalarType newton_schulz_type(const at::TensorOptions& buffers);

// Five steps X <- a X + (b G + c G^2) X, G = X X^T, from X / (|X| + 1e-7). The result lies in the
// scratch and stands until the next call.
const at::Tensor& orthogonalize(NewtonSchulzScratch& scratch);

}  // namespace leeway
