// Products with the layers' weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace leeway {

// x w^T + bias + onto. `bias` and `onto` may be undefined.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                          const at::Tensor& onto);

// The same while the product is written, without a pass of its own for the other two. Undefined
// where there is no such product.
at::Tensor product_in_one_pass(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                               const at::Tensor& onto);

// g += a b, accumulated in fp32 even if a and b are bf16.
void accumulate_product(const at::Tensor& g, const at::Tensor& a, const at::Tensor& b);

}  // namespace leeway
