#include "kernels/embedding.h"

#include <optional>

#include "kernels/column_form.h"
#include "kernels/layers.h"
#if LEEWAY_CUDA
#include "kernels/embedding_cuda.h"
#endif

namespace leeway {
namespace {

#if LEEWAY_CUDA
bool has_form(const at::Tensor& dy, const at::Tensor& g) {
  return has_column_form(dy) && dy.size(1) <= cuda::kRowColumns && g.scalar_type() == at::kFloat &&
         g.is_contiguous() && g.size(0) <= INT32_MAX;
}

// ATen's would fill a table of zeros, and then add all of it to g.
void backward_on_gpu(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g) {
  const std::optional<bool> stable = true;  // equal ids in the order of their rows
  const auto [sorted, order] = at::sort(ids.to(at::kInt), stable, /*dim=*/0);
  const int64_t chunks = (ids.size(0) + cuda::kEmbeddingChunk - 1) / cuda::kEmbeddingChunk;
  const at::Tensor parts = at::empty({chunks, 2, dy.size(1)}, g.options());
  const CudaScope scope(dy);
  cuda::embedding_backward({.ids = scope.data<int>(sorted),
                            .order = scope.data<int64_t>(order),
                            .count = static_cast<int>(ids.size(0)),
                            .dy = scope.data<void>(dy),
                            .columns = static_cast<int>(dy.size(1)),
                            .parts = scope.data<float>(parts),
                            .gradients = scope.data<float>(g)},
                           scope.stream());
}
#endif

}  // namespace

at::Tensor embedding_forward(const at::Tensor& table, const at::Tensor& ids) {
  return at::embedding(table, ids);
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g) {
#if LEEWAY_CUDA
  if (has_form(dy, g)) return backward_on_gpu(ids, dy, g);
#endif
  // Widened first: a frequent token has thousands of rows to add, and bf16 sums stop growing.
  const at::Tensor wide = dy.to(g.scalar_type());
  if (kernels::takes(wide)) {
    kernels::embedding_backward(ids, wide, g);
    return;
  }
  g.add_(at::embedding_dense_backward(wide, ids, g.size(0), /*padding_idx=*/-1,
                                      /*scale_grad_by_freq=*/false));
}

}  // namespace leeway
