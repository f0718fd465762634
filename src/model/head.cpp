#include "model/head.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/loss.h"
#include "model/layers.h"

namespace leeway {
namespace {

// Calls each(rows of x, their targets) for one part after the other.
void for_parts(const LinearViews& w, const at::Tensor& x, const at::Tensor& targets,
               const std::function<void(const at::Tensor&, const at::Tensor&)>& each) {
  const int64_t at_once =
      loss_rows_at_once(x.size(0), w.weight.size(0), x.element_size(), x.device());
  for (int64_t begin = 0; begin < x.size(0); begin += at_once) {
    const int64_t rows = std::min(at_once, x.size(0) - begin);
    each(x.narrow(0, begin, rows), targets.narrow(0, begin, rows));
  }
}

at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace

at::Tensor head_loss(const LinearViews& w, const at::Tensor& x, const at::Tensor& targets,
                     int64_t vocabulary) {
  std::vector<at::Tensor> losses;
  for_parts(w, x, targets, [&](const at::Tensor& rows, const at::Tensor& own_targets) {
    losses.push_back(row_losses(linear_forward(w, rows), own_targets, vocabulary));
  });
  return joined(losses).mean();
}

HeadGradient head_gradient(const LinearViews& w, const at::Tensor& x, const at::Tensor& targets,
                           const LossOptions& options, const LinearViews& g) {
  const RowGradientOptions of_row = {.share = options.scale / static_cast<double>(x.size(0)),
                                     .vocabulary = options.vocabulary};
  std::vector<at::Tensor> losses;
  std::vector<at::Tensor> dx;
  for_parts(w, x, targets, [&](const at::Tensor& rows, const at::Tensor& own_targets) {
    const RowGradients made = row_gradients(linear_forward(w, rows), own_targets, of_row);
    losses.push_back(made.losses);
    dx.push_back(linear_backward(w, rows, made.dlogits, g));
  });
  return {.loss = joined(losses).mean(), .dx = joined(dx)};
}

}  // namespace leeway
