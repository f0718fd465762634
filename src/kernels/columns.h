// Sums over rows, which are the gradients of biases.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

// sums += the rows of `rows` [rows, columns], added up in the type of `sums`.
void add_column_sums(const at::Tensor& rows, const at::Tensor& sums);

}  // namespace leeway
