#include "kernels/layer_norm.h"

#include "kernels/column_form.h"
#if LEEWAY_CUDA
#include "kernels/layer_norm_cuda.h"
#endif

namespace leeway {

#if LEEWAY_CUDA
namespace {

bool has_form(const at::Tensor& rows, const at::Tensor& weight) {
  return has_column_form(rows) && has_column_form(weight.unsqueeze(0)) &&
         rows.size(1) <= cuda::kRowColumns;
}

}  // namespace

NormResult norm_forward_in_one_pass(NormKind kind, const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, double epsilon) {
  if (!has_form(x, weight) || (bias.defined() && !has_form(x, bias))) return {};
  const auto statistic = [&] {
    return at::empty({x.size(0), 1}, x.options().dtype(at::ScalarType::Float));
  };
  NormResult made = {.y = at::empty_like(x), .mean = {}, .rstd = statistic()};
  if (kind == NormKind::kLayer) made.mean = statistic();
  const CudaScope scope(x);
  cuda::norm_forward({.x = scope.data<void>(x),
                      .weight = scope.data<void>(weight),
                      .bias = scope.data<void>(bias),
                      .epsilon = static_cast<float>(epsilon),
                      .y = scope.data<void>(made.y),
                      .mean = scope.data<float>(made.mean),
                      .rstd = scope.data<float>(made.rstd),
                      .rows = x.size(0),
                      .columns = static_cast<int>(x.size(1))},
                     scope.stream());
  return made;
}

at::Tensor norm_backward_in_one_pass(const NormBackward& a, ColumnSums& sums) {
  if (!has_form(a.dy, a.weight) || !has_column_form(a.x)) return {};
  if (a.residual.defined() && !has_column_form(a.residual)) return {};
  const at::Tensor dx = at::empty_like(a.dy);
  const auto columns = static_cast<int>(a.dy.size(1));
  const at::Tensor parts =
      at::empty({cuda::norm_backward_blocks(a.dy.size(0), columns), 2, columns},
                a.dy.options().dtype(at::ScalarType::Float));
  const CudaScope scope(a.dy);
  cuda::norm_backward({.dy = scope.data<void>(a.dy),
                       .x = scope.data<void>(a.x),
                       .mean = scope.data<float>(a.mean),
                       .rstd = scope.data<float>(a.rstd),
                       .weight = scope.data<void>(a.weight),
                       .residual = scope.data<void>(a.residual),
                       .dx = scope.data<void>(dx),
                       .parts = scope.data<float>(parts),
                       .rows = a.dy.size(0),
                       .columns = columns},
                      scope.stream());
  sums.add_parts(parts, {a.dweight, a.dbias});
  return dx;
}
#else
NormResult norm_forward_in_one_pass(NormKind /*kind*/, const at::Tensor& /*x*/,
                                    const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                                    double /*epsilon*/) {
  return {};
}

at::Tensor norm_backward_in_one_pass(const NormBackward& /*a*/, ColumnSums& /*sums*/) { return {}; }
#endif

}  // namespace leeway
