#include "kernels/columns.h"
#include "model/layers.h"

namespace leeway {
namespace {

// g += a b, accumulated in fp32 even if a and b are bf16.
void accumulate_product(const at::Tensor& g, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = g;
  if (g.scalar_type() == a.scalar_type()) {
    at::addmm_out(out, g, a, b);
  } else if (g.is_cuda()) {
    at::addmm_out(out, g, a, b, g.scalar_type());
  } else {
    out.add_(at::mm(a, b));  // the CPU has no bf16 product with an fp32 result
  }
}

}  // namespace

at::Tensor linear_forward(const LinearViews& w, const at::Tensor& x, const at::Tensor& onto) {
  if (!onto.defined()) {
    return w.bias.defined() ? at::addmm(w.bias, x, w.weight.t()) : at::mm(x, w.weight.t());
  }
  at::Tensor y = w.bias.defined() ? at::add(onto, w.bias) : onto.clone();
  return y.addmm_(x, w.weight.t());
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
