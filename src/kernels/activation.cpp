#include "kernels/activation.h"

#include "base/check.h"
#include "kernels/column_form.h"
#include "kernels/layers.h"
#if LEEWAY_CUDA
#include "kernels/activation_cuda.h"
#endif

namespace leeway {
namespace {

int64_t hidden_of(Activation activation, const at::Tensor& x) {
  return activation == Activation::kSwiglu ? x.size(1) / 2 : x.size(1);
}

#if LEEWAY_CUDA
at::Tensor forward_on_gpu(Activation activation, const at::Tensor& x) {
  const int64_t hidden = hidden_of(activation, x);
  at::Tensor y = at::empty({x.size(0), hidden}, x.options());
  const CudaScope scope(x);
  cuda::activation_forward(activation,
                           {.x = scope.data<void>(x),
                            .y = scope.data<void>(y),
                            .rows = x.size(0),
                            .hidden = static_cast<int>(hidden)},
                           scope.stream());
  return y;
}

ActivationGradient backward_on_gpu(Activation activation, const at::Tensor& x, const at::Tensor& dy,
                                   const BiasSums& bias) {
  LEEWAY_CHECK(has_column_form(dy), "dy is like y");
  const int64_t hidden = dy.size(1);
  ActivationGradient made = {.dx = at::empty_like(x), .y = at::empty_like(dy)};
  const bool by_kernel = bias.onto.defined() && activation != Activation::kSwiglu;
  at::Tensor parts;
  if (by_kernel) parts = column_parts(dy, static_cast<int>(hidden / cuda::kColumns), hidden);
  const CudaScope scope(x);
  cuda::activation_backward(activation,
                            {.x = scope.data<void>(x),
                             .dy = scope.data<void>(dy),
                             .y = scope.data<void>(made.y),
                             .dx = scope.data<void>(made.dx),
                             .rows = x.size(0),
                             .hidden = static_cast<int>(hidden),
                             .parts = scope.data<float>(parts)},
                            scope.stream());
  if (by_kernel) {
    bias.sums.add_parts(parts.unsqueeze(1), {bias.onto});
  } else if (bias.onto.defined()) {
    bias.sums.add_rows(made.dx, bias.onto);
  }
  return made;
}
#endif

at::Tensor swiglu_backward(const at::Tensor& x, const at::Tensor& dy) {
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

at::Tensor input_gradient(Activation activation, const at::Tensor& x, const at::Tensor& dy) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu_backward(dy, x, "tanh");
    case Activation::kRelu:
      return at::threshold_backward(dy, x, 0);
    case Activation::kSwiglu:
      break;
  }
  return swiglu_backward(x, dy);
}

}  // namespace

bool activation_repeats([[maybe_unused]] Activation activation,
                        [[maybe_unused]] const at::Tensor& x) {
#if LEEWAY_CUDA
  return has_column_form(x) && hidden_of(activation, x) % cuda::kColumns == 0;
#else
  return false;
#endif
}

at::Tensor activation_forward(Activation activation, const at::Tensor& x) {
  if (activation_repeats(activation, x)) {
    LEEWAY_CUDA_TWIN(return forward_on_gpu(activation, x));
  }
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSwiglu:
      break;
  }
  const int64_t hidden = hidden_of(activation, x);
  if (kernels::takes(x)) {
    at::Tensor y = at::empty({x.size(0), hidden}, x.options());
    kernels::swiglu_forward(x, y);
    return y;
  }
  return at::silu(x.narrow(1, 0, hidden)).mul_(x.narrow(1, hidden, hidden));
}

ActivationGradient activation_backward(Activation activation, const at::Tensor& x,
                                       const at::Tensor& dy, const BiasSums& bias) {
  if (activation_repeats(activation, x)) {
    LEEWAY_CUDA_TWIN(return backward_on_gpu(activation, x, dy, bias));
  }
  ActivationGradient made = {.dx = input_gradient(activation, x, dy), .y = {}};
  if (bias.onto.defined()) bias.sums.add_rows(made.dx, bias.onto);
  return made;
}

}  // namespace leeway
