// The head of the last stage and the loss. Logits are made for some rows at a time, and their
// gradient in the same sweep: they are the largest activations of a model, and nothing keeps them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "model/views.h"

namespace leeway {

struct LossOptions {
  double scale = 1;        // the gradient is that of scale * loss
  int64_t vocabulary = 0;  // rows of the head that count; 0: all. Others are padding
};

// The mean over the rows of x [tokens, width].
at::Tensor head_loss(const LinearViews& w, const at::Tensor& x, const at::Tensor& targets,
                     int64_t vocabulary);

struct HeadGradient {
  at::Tensor loss;
  at::Tensor dx;
};
// The same loss, and its gradient: adds to g.
HeadGradient head_gradient(const LinearViews& w, const at::Tensor& x, const at::Tensor& targets,
                           const LossOptions& options, const LinearViews& g);

}  // namespace leeway
