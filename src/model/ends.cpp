// The first end of the model: ids in.
#include "kernels/layers.h"
#include "model/layers.h"

namespace leeway {

at::Tensor embedding_forward(const at::Tensor& table, const at::Tensor& ids) {
  return at::embedding(table, ids);
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g) {
  // Widened first: a frequent token has thousands of rows to add, and bf16 sums stop growing.
  const at::Tensor wide = dy.to(g.scalar_type());
  if (kernels::takes(wide)) {
    kernels::embedding_backward(ids, wide, g);
    return;
  }
  at::Tensor out = g;
  out.add_(at::embedding_dense_backward(wide, ids, g.size(0), /*padding_idx=*/-1,
                                        /*scale_grad_by_freq=*/false));
}

}  // namespace leeway
