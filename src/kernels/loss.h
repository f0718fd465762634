// Cross-entropy in fp32 (fp64 for fp64 models), mean over the tokens.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace leeway {

struct LossOptions {
  double scale = 1;        // the gradient is that of scale * loss
  int64_t vocabulary = 0;  // columns of the logits that count; 0: all. Others are padding
};

struct LossSaved {
  at::Tensor log_probabilities = {};
  // On a GPU: the gradient, which the forward sweep leaves in place of the logits.
  at::Tensor dlogits = {};
  LossOptions options = {};
};

// `saved` null: evaluation. Else consumes the logits.
at::Tensor loss_forward(const at::Tensor& logits, const at::Tensor& targets, LossSaved* saved,
                        const LossOptions& options = {});
// d(scale * loss) / d(logits), 0 for padding; consumes `saved`.
at::Tensor loss_backward(LossSaved saved, const at::Tensor& targets, at::ScalarType dtype);

}  // namespace leeway
