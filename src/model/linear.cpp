#include "base/check.h"
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

void linear_backward_weights(const at::Tensor& x, const at::Tensor& dy, const LinearViews& g) {
  accumulate_product(g.weight, dy.t(), x);
  if (g.bias.defined()) {
    at::Tensor bias = g.bias;
    bias.add_(at::sum(dy, 0, /*keepdim=*/false, g.bias.scalar_type()));
  }
}

at::Tensor linear_backward(const LinearViews& w, const at::Tensor& x, const at::Tensor& dy,
                           const LinearViews& g) {
  linear_backward_weights(x, dy, g);
  return at::mm(dy, w.weight);
}

}  // namespace leeway
