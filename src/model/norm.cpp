#include <utility>

#include "kernels/layer_norm.h"
#include "kernels/layers.h"
#include "model/layers.h"

namespace leeway {
namespace {

at::Tensor rms_forward(const NormViews& w, const at::Tensor& x, NormSaved& saved) {
  if (kernels::takes(x)) {
    at::Tensor y = at::empty_like(x);
    saved.rstd = at::empty({x.size(0)}, x.options());
    kernels::rms_norm_forward(x, w.weight, kNormEpsilon, y, saved.rstd);
    return y;
  }
  if (x.is_cuda()) {
    at::Tensor y;
    std::tie(y, saved.rstd) = at::_fused_rms_norm(x, {x.size(1)}, w.weight, kNormEpsilon);
    return y;
  }
  const at::Tensor wide = x.to(at::kFloat);
  saved.rstd = at::rsqrt(at::mean(wide.square(), 1, /*keepdim=*/true).add_(kNormEpsilon));
  return (wide * saved.rstd).to(x.scalar_type()).mul_(w.weight);
}

at::Tensor with_residual(at::Tensor dx, const at::Tensor& residual) {
  if (residual.defined()) dx.add_(residual);
  return dx;
}

at::Tensor rms_backward(const NormViews& w, const NormSaved& saved, const at::Tensor& dy,
                        const at::Tensor& residual, const NormViews& g) {
  if (kernels::takes(dy)) {
    at::Tensor dx = at::empty_like(dy);
    kernels::rms_norm_backward({.dy = dy,
                                .x = saved.x,
                                .rstd = saved.rstd,
                                .weight = w.weight,
                                .residual = residual,
                                .dx = dx,
                                .dweight = g.weight});
    return dx;
  }
  at::Tensor dweight = g.weight;
  if (dy.is_cuda()) {
    auto [dx, dw] =
        at::_fused_rms_norm_backward(dy, saved.x, {dy.size(1)}, saved.rstd, w.weight, {true, true});
    dweight.add_(dw);
    return with_residual(dx, residual);
  }
  const at::Tensor wide_dy = dy.to(at::kFloat);
  const at::Tensor normal = saved.x.to(at::kFloat) * saved.rstd;
  dweight.add_(at::sum(wide_dy * normal, 0));
  const at::Tensor scaled = wide_dy * w.weight.to(at::kFloat);
  const at::Tensor back = at::mean(scaled * normal, 1, /*keepdim=*/true);
  const at::Tensor dx = at::addcmul(scaled, normal, back, -1).mul_(saved.rstd);
  return with_residual(dx, residual).to(dy.scalar_type());
}

}  // namespace

at::Tensor norm_forward(Architecture architecture, const NormViews& w, const at::Tensor& x,
                        NormSaved& saved) {
  saved.x = x;
  const bool is_rms = architecture == Architecture::kLlama;
  NormResult fused = norm_forward_in_one_pass(is_rms ? NormKind::kRms : NormKind::kLayer, x,
                                              w.weight, w.bias, kNormEpsilon);
  if (fused.y.defined()) {
    saved.mean = std::move(fused.mean);
    saved.rstd = std::move(fused.rstd);
    return std::move(fused.y);
  }
  if (is_rms) return rms_forward(w, x, saved);
  at::Tensor y;
  std::tie(y, saved.mean, saved.rstd) =
      at::native_layer_norm(x, {x.size(1)}, w.weight, w.bias, kNormEpsilon);
  return y;
}

at::Tensor norm_backward(Architecture architecture, const NormViews& w, const NormSaved& saved,
                         const at::Tensor& dy, const NormOnto& onto) {
  const auto& [residual, g, sums] = onto;
  at::Tensor fused = norm_backward_in_one_pass({.dy = dy,
                                                .x = saved.x,
                                                .mean = saved.mean,
                                                .rstd = saved.rstd,
                                                .weight = w.weight,
                                                .residual = residual,
                                                .dweight = g.weight,
                                                .dbias = g.bias},
                                               sums);
  if (fused.defined()) return fused;
  if (architecture == Architecture::kLlama) return rms_backward(w, saved, dy, residual, g);
  auto [dx, dweight, dbias] =
      at::native_layer_norm_backward(dy, saved.x, {dy.size(1)}, saved.mean, saved.rstd, w.weight,
                                     w.bias, {true, true, w.bias.defined()});
  at::Tensor weight = g.weight;
  weight.add_(dweight);
  if (w.bias.defined()) {
    at::Tensor bias = g.bias;
    bias.add_(dbias);
  }
  return with_residual(dx, residual);
}

}  // namespace leeway
