// The two ends of the model: ids in, loss out.
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

at::Tensor loss_forward(const at::Tensor& logits, const at::Tensor& targets, LossSaved& saved) {
  const at::ScalarType wide =
      logits.scalar_type() == at::kDouble ? at::ScalarType::Double : at::ScalarType::Float;
  saved.log_probabilities = at::log_softmax(logits, 1, wide);
  return at::gather(saved.log_probabilities, 1, targets.unsqueeze(1)).mean().neg_();
}

at::Tensor loss_backward(LossSaved saved, const at::Tensor& targets, double scale,
                         at::ScalarType dtype) {
  at::Tensor dlogits = std::move(saved.log_probabilities);
  const double share = scale / static_cast<double>(targets.size(0));
  if (kernels::takes(dlogits)) {
    kernels::cross_entropy_backward(dlogits, targets, share);
  } else {
    const at::Tensor minus_one = at::full({1, 1}, -1.0, dlogits.options());
    dlogits.exp_().scatter_add_(1, targets.unsqueeze(1), minus_one.expand({targets.size(0), 1}));
    dlogits.mul_(share);
  }
  return dlogits.to(dtype);
}

}  // namespace leeway
