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

void linear_backward_bias(const at::Tensor& dy, const LinearViews& g) {
  if (g.bias.defined()) add_column_sums(dy, g.bias);
}

at::Tensor linear_backward(const LinearViews& w, const at::Tensor& x, const at::Tensor& dy,
                           const LinearViews& g) {
  linear_backward_weight(x, dy, g);
  linear_backward_bias(dy, g);
  return linear_backward_input(w, dy);
}

}  // namespace leeway
