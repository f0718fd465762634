#include "kernels/loss.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/cuda_glue.h"
#include "kernels/layers.h"
#if LEEWAY_CUDA
#include "kernels/loss_cuda.h"
#endif

namespace leeway {
namespace {

int64_t vocabulary_of(const at::Tensor& logits, int64_t vocabulary) {
  return vocabulary == 0 ? logits.size(1) : vocabulary;
}

bool has_own_kernel(const at::Tensor& logits) {
  return is_on_gpu(logits) && logits.scalar_type() != at::kDouble;
}

#if LEEWAY_CUDA
// Without a share the logits stay as they are.
at::Tensor losses_on_gpu(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary,
                         std::optional<double> share) {
  LEEWAY_CHECK(logits.is_contiguous() && targets.is_contiguous(), "rows are contiguous");
  at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::ScalarType::Float));
  cuda::cross_entropy({.logits = logits.mutable_data_ptr(),
                       .half = logits.scalar_type() == at::kBFloat16,
                       .targets = targets.const_data_ptr<int64_t>(),
                       .rows = logits.size(0),
                       .columns = logits.size(1),
                       .vocabulary = vocabulary_of(logits, vocabulary),
                       .losses = losses.mutable_data_ptr<float>(),
                       .gradient = share.has_value(),
                       .share = static_cast<float>(share.value_or(0))},
                      CudaScope(logits).stream());
  return losses;
}
#endif

at::Tensor log_probabilities_of(const at::Tensor& logits, int64_t vocabulary) {
  const at::ScalarType wide =
      logits.scalar_type() == at::kDouble ? at::ScalarType::Double : at::ScalarType::Float;
  return at::log_softmax(logits.narrow(1, 0, vocabulary_of(logits, vocabulary)), 1, wide);
}

at::Tensor chosen_losses(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  return at::gather(log_probabilities, 1, targets.unsqueeze(1)).squeeze(1).neg_();
}

}  // namespace

int64_t loss_rows_at_once(int64_t rows, int64_t columns, int64_t number_bytes,
                          const at::Device& device) {
  // Each part adds to the gradient of the head's weights: on a GPU a tenth of a millisecond.
  const int64_t bytes_most = int64_t{1} << (device.is_cpu() ? 27 : 31);
  constexpr int64_t kWhole = 128;  // rows that a product works on together
  const auto in_wholes = [](int64_t some) { return (some + kWhole - 1) / kWhole; };
  const int64_t most = std::max(bytes_most / (columns * number_bytes) / kWhole, int64_t{1});
  const int64_t parts = (in_wholes(rows) + most - 1) / most;
  return std::min(rows, (in_wholes(rows) + parts - 1) / parts * kWhole);
}

at::Tensor row_losses(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary) {
  if (has_own_kernel(logits)) {
    LEEWAY_CUDA_TWIN(return losses_on_gpu(logits, targets, vocabulary, /*share=*/{}));
  }
  return chosen_losses(log_probabilities_of(logits, vocabulary), targets);
}

RowGradients row_gradients(at::Tensor logits, const at::Tensor& targets,
                           const RowGradientOptions& options) {
  if (has_own_kernel(logits)) {
    LEEWAY_CUDA_TWIN({
      at::Tensor losses = losses_on_gpu(logits, targets, options.vocabulary, options.share);
      return {.losses = std::move(losses), .dlogits = std::move(logits)};
    });
  }
  const at::ScalarType type = logits.scalar_type();
  const at::Tensor probabilities = log_probabilities_of(logits, options.vocabulary);
  const int64_t padding = logits.size(1) - probabilities.size(1);
  logits.reset();
  at::Tensor losses = chosen_losses(probabilities, targets);
  kernels::cross_entropy_backward(probabilities, targets, options.share);
  at::Tensor dlogits = probabilities.to(type);
  if (padding > 0) dlogits = at::constant_pad_nd(dlogits, {0, padding}, 0);
  return {.losses = std::move(losses), .dlogits = std::move(dlogits)};
}

}  // namespace leeway
