// The first end of the model: ids in.
#pragma once

#include <ATen/ATen.h>

namespace leeway {

at::Tensor embedding_forward(const at::Tensor& table, const at::Tensor& ids);
// g[ids[n]] += dy[n], added up in the type of g, in an order that is always the same.
void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g);

}  // namespace leeway
