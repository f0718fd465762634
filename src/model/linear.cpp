#include "kernels/columns.h"
#include "kernels/products.h"
#include "model/layers.h"

namespace leeway {

at::Tensor linear_forward(const LinearViews& w, const at::Tensor& x, const at::Tensor& onto) {
  return linear_product(x, w.weight, w.bias, onto);
}

at::Tensor linear_backward_input(const LinearViews& w, const at::Tensor& dy) {
  return at::mm(dy, w.weight);
}

void linear_backward_weight(const at::Tensor& x, const at::Tensor& dy, const LinearViews& g) {
  accumulate_product(g.weight, dy.t(), x);
}

at::Tensor linear_backward(const LinearViews& w, const at::Tensor& x, const at::Tensor& dy,
                           const LinearViews& g) {
  linear_backward_weight(x, dy, g);
  if (g.bias.defined()) add_column_sums(dy, g.bias);
  return linear_backward_input(w, dy);
}

}  // namespace leeway
