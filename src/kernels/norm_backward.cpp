#include "kernels/norm_backward.h"

#include "kernels/cuda_glue.h"
#if LEEWAY_CUDA
#include "kernels/norm_backward_cuda.h"
#endif

namespace leeway {

#if LEEWAY_CUDA
namespace {

bool has_form(const NormBackward& a) {
  const int64_t columns = a.dy.size(1);
  const auto fits = [](const at::Tensor& rows) {
    return rows.is_contiguous() && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  };
  return is_on_gpu(a.dy) && a.dy.scalar_type() == at::kBFloat16 &&
         columns % cuda::kNormWidth == 0 && columns <= cuda::kNormColumns && a.dy.size(0) > 0 &&
         fits(a.dy) && fits(a.x) && fits(a.residual) && fits(a.weight);
}

}  // namespace
#endif

at::Tensor norm_backward_in_one_pass([[maybe_unused]] const NormBackward& a) {
#if LEEWAY_CUDA
  if (!has_form(a)) return {};
  const at::Tensor dx = at::empty_like(a.dy);
  const int64_t columns = a.dy.size(1);
  const at::Tensor parts = at::empty({cuda::norm_backward_blocks(a.dy.size(0)), 2, columns},
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
                       .dweight = scope.data<float>(a.dweight),
                       .dbias = scope.data<float>(a.dbias),
                       .rows = a.dy.size(0),
                       .columns = static_cast<int>(columns)},
                      scope.stream());
  return dx;
#else
  return {};
#endif
}

}  // namespace leeway
