#include "kernels/columns.h"

#include <exception>
#include <utility>

#include "base/check.h"
#include "kernels/column_form.h"

namespace leeway {

ColumnSums::~ColumnSums() {
  // One that an exception has left behind takes its sums with it.
  if (std::uncaught_exceptions() > 0) return;
  LEEWAY_CHECK(rows_.empty() && parts_.empty(), "sums that were begun are finished");
}

void ColumnSums::add_rows(const at::Tensor& rows, const at::Tensor& sums) {
#if LEEWAY_CUDA
  if (has_column_form(rows) && sums.scalar_type() == at::kFloat) {
    const bool fits = rows_.empty() || rows_.front().rows.sizes() == rows.sizes();
    if (!fits || std::ssize(rows_) == cuda::kRowSetsMost) sum_rows();
    rows_.push_back({rows, sums});
    return;
  }
#endif
  sums.add_(at::sum(rows, 0, /*keepdim=*/false, sums.scalar_type()));
}

#if LEEWAY_CUDA
// Only their parts, in one launch.
void ColumnSums::sum_rows() {
  if (rows_.empty()) return;
  const auto waiting = std::exchange(rows_, {});
  const at::Tensor& first = waiting.front().rows;
  const CudaScope scope(first);
  cuda::RowSets sets = {.count = static_cast<int>(waiting.size()),
                        .rows = first.size(0),
                        .columns = static_cast<int>(first.size(1))};
  for (size_t i = 0; i < waiting.size(); ++i) {
    const at::Tensor parts =
        column_parts(first, sets.columns / cuda::kColumns, sets.columns).unsqueeze(1);
    sets.at[i] = {.numbers = scope.data<void>(waiting[i].rows), .parts = scope.data<float>(parts)};
    add_parts(parts, {waiting[i].sums});
  }
  cuda::sum_rows(sets, scope.stream());
}

void ColumnSums::add_parts(const at::Tensor& parts, const std::vector<at::Tensor>& sums) {
  LEEWAY_CHECK(parts.dim() == 3 && parts.is_contiguous() && parts.size(1) == std::ssize(sums) &&
                   parts.size(1) <= cuda::kPartOutputsMost,
               "parts have a place for each of the sums");
  parts_.push_back({parts, sums});
}

void ColumnSums::finish() {
  sum_rows();
  const auto waiting = std::exchange(parts_, {});
  for (size_t begin = 0; begin < waiting.size(); begin += cuda::kPartSetsMost) {
    const CudaScope scope(waiting[begin].parts);
    cuda::PartSets sets;
    for (size_t i = begin; i < waiting.size() && sets.count < cuda::kPartSetsMost; ++i) {
      const auto& [parts, sums] = waiting[i];
      cuda::PartPointers& set = sets.at[sets.count++];
      set = {.parts = scope.data<float>(parts),
             .count = static_cast<int>(parts.size(0)),
             .outputs = static_cast<int>(parts.size(1)),
             .columns = static_cast<int>(parts.size(2))};
      for (size_t output = 0; output < sums.size(); ++output) {
        set.sums[output] = scope.data<float>(sums[output]);
      }
    }
    cuda::add_parts(sets, scope.stream());
  }
}
#else
void ColumnSums::add_parts(const at::Tensor& /*parts*/, const std::vector<at::Tensor>& /*sums*/) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
void ColumnSums::sum_rows() {}
void ColumnSums::finish() {}
#endif

void add_column_sums(const at::Tensor& rows, const at::Tensor& sums) {
  ColumnSums alone;
  alone.add_rows(rows, sums);
  alone.finish();
}

}  // namespace leeway
