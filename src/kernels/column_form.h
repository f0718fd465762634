// Which tensors the kernels over columns of a GPU take, and their scratch memory.
#pragma once

#include "kernels/cuda_glue.h"
#if LEEWAY_CUDA
#include "kernels/columns_cuda.h"

namespace leeway {

// Rows of bf16 on a GPU whose columns are whole vectors; the kernels have no other form.
inline bool has_column_form(const at::Tensor& rows) {
  return is_on_gpu(rows) && rows.scalar_type() == at::kBFloat16 && rows.dim() == 2 &&
         rows.is_contiguous() && rows.size(0) > 0 && rows.size(0) <= INT32_MAX &&
         rows.size(1) > 0 && rows.size(1) <= INT32_MAX && rows.size(1) % cuda::kColumns == 0 &&
         reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
}

// For sums over the rows by so many threads along the columns.
inline at::Tensor column_parts(const at::Tensor& rows, int threads, int64_t columns) {
  return at::empty({cuda::row_parts(threads, rows.size(0)), columns},
                   rows.options().dtype(at::ScalarType::Float));
}

}  // namespace leeway
#endif
