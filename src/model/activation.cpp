#include "base/check.h"
#include "kernels/layers.h"
#include "model/layers.h"

namespace leeway {

at::Tensor activation_forward(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSwiglu:
      break;
  }
  const int64_t hidden = x.size(1) / 2;
  if (kernels::takes(x)) {
    at::Tensor y = at::empty({x.size(0), hidden}, x.options());
    kernels::swiglu_forward(x, y);
    return y;
  }
  return at::silu(x.narrow(1, 0, hidden)).mul_(x.narrow(1, hidden, hidden));
}

at::Tensor activation_backward(Activation activation, const at::Tensor& x, const at::Tensor& dy) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu_backward(dy, x, "tanh");
    case Activation::kRelu:
      return at::threshold_backward(dy, x, 0);
    case Activation::kSwiglu:
      break;
  }
  at::Tensor dx = at::empty_like(x);
  if (kernels::takes(x)) {
    kernels::swiglu_backward(x, dy, dx);
    return dx;
  }
  const int64_t hidden = dy.size(1);
  const at::Tensor gate = x.narrow(1, 0, hidden);
  const at::Tensor up = x.narrow(1, hidden, hidden);
  dx.narrow(1, 0, hidden).copy_(at::silu_backward(dy * up, gate));
  dx.narrow(1, hidden, hidden).copy_(at::silu(gate).mul_(dy));
  return dx;
}

}  // namespace leeway
