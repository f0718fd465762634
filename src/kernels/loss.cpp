#include "kernels/loss.h"

#include <utility>

#include "base/check.h"
#include "kernels/cuda_glue.h"
#include "kernels/layers.h"
#if LEEWAY_CUDA
#include "kernels/loss_cuda.h"
#endif

namespace leeway {
namespace {

int64_t vocabulary_of(const at::Tensor& logits, const LossOptions& options) {
  return options.vocabulary == 0 ? logits.size(1) : options.vocabulary;
}

#if LEEWAY_CUDA
at::Tensor forward_on_gpu(const at::Tensor& logits, const at::Tensor& targets, LossSaved* saved,
                          const LossOptions& options) {
  LEEWAY_CHECK(logits.is_contiguous() && targets.is_contiguous(), "rows are contiguous");
  const at::Tensor losses =
      at::empty({logits.size(0)}, logits.options().dtype(at::ScalarType::Float));
  cuda::cross_entropy(
      {.logits = logits.mutable_data_ptr(),
       .half = logits.scalar_type() == at::kBFloat16,
       .targets = targets.const_data_ptr<int64_t>(),
       .rows = logits.size(0),
       .columns = logits.size(1),
       .vocabulary = vocabulary_of(logits, options),
       .losses = losses.mutable_data_ptr<float>(),
       .gradient = saved != nullptr,
       .share = static_cast<float>(options.scale / static_cast<double>(targets.size(0)))},
      CudaScope(logits).stream());
  if (saved != nullptr) saved->dlogits = logits;
  return losses.mean();
}
#endif

}  // namespace

at::Tensor loss_forward(const at::Tensor& logits, const at::Tensor& targets, LossSaved* saved,
                        const LossOptions& options) {
  if (saved != nullptr) saved->options = options;
  if (is_on_gpu(logits) && logits.scalar_type() != at::kDouble) {
    LEEWAY_CUDA_TWIN(return forward_on_gpu(logits, targets, saved, options));
  }
  const at::ScalarType wide =
      logits.scalar_type() == at::kDouble ? at::ScalarType::Double : at::ScalarType::Float;
  const at::Tensor counted = logits.narrow(1, 0, vocabulary_of(logits, options));
  const at::Tensor log_probabilities = at::log_softmax(counted, 1, wide);
  if (saved != nullptr) saved->log_probabilities = log_probabilities;
  return at::gather(log_probabilities, 1, targets.unsqueeze(1)).mean().neg_();
}

at::Tensor loss_backward(LossSaved saved, const at::Tensor& targets, at::ScalarType dtype) {
  if (saved.dlogits.defined()) return std::move(saved.dlogits);
  at::Tensor dlogits = std::move(saved.log_probabilities);
  const double share = saved.options.scale / static_cast<double>(targets.size(0));
  kernels::cross_entropy_backward(dlogits, targets, share);
  return dlogits.to(dtype);
}

}  // namespace leeway
