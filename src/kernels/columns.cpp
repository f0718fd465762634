#include "kernels/columns.h"

#include "kernels/column_form.h"

namespace leeway {

void add_column_sums(const at::Tensor& rows, const at::Tensor& sums) {
#if LEEWAY_CUDA
  if (has_column_form(rows) && sums.scalar_type() == at::kFloat) {
    const CudaScope scope(rows);
    const auto columns = static_cast<int>(rows.size(1));
    const at::Tensor parts = column_parts(rows, columns / cuda::kColumns, columns);
    cuda::add_column_sums({.numbers = scope.data<void>(rows),
                           .rows = rows.size(0),
                           .columns = columns,
                           .parts = scope.data<float>(parts),
                           .sums = scope.data<float>(sums)},
                          scope.stream());
    return;
  }
#endif
  sums.add_(at::sum(rows, 0, /*keepdim=*/false, sums.scalar_type()));
}

}  // namespace leeway
