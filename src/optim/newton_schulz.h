// Muon's orthogonalization: pushes a matrix's singular values to 1.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

// Everything the iteration needs for k matrices of one shape, allocated once and used at every
// update. `x` contains the matrices on entry.
struct NewtonSchulzScratch {
  at::Tensor x;           // [k, rows, cols]
  at::Tensor next;        // [k, rows, cols]
  at::Tensor gram;        // [k, n, n], n the smaller of rows and cols
  at::Tensor polynomial;  // [k, n, n]
  at::Tensor norm;        // [k, 1, 1]
};

// The type Newton-Schulz computes in. On a GPU, fp32 weights are orthogonalized in bf16: it takes a
// fraction of the time, and its error is small compared with the iteration's own, which leaves
// singular values anywhere from 0.7 to 1.2. On the CPU, where tests compare with a reference, it is
// the weights' own type.
at::ScalarType newton_schulz_type(const at::TensorOptions& buffers);

// Five steps X <- a X + (b G + c G^2) X, G = X X^T, from X / (|X| + 1e-7). The result is in the
// scratch and valid until the next call.
const at::Tensor& orthogonalize(NewtonSchulzScratch& scratch);

}  // namespace leeway
