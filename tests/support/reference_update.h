// An update written with ATen operations, a line per formula: what the passes of kernels/update.h
// must compute.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "kernels/update.h"

namespace leeway {

inline void reference_element_pass(const std::vector<Span>& spans, const StepConstants& constants,
                                   const PassTensors& tensors) {
  for (const Span& span : spans) {
    const auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, span.offset, span.count);
    };
    const at::Tensor gradient = view(tensors.gradients) * constants.gradient_scale;
    at::Tensor momentum = view(tensors.momentum);
    at::Tensor weights = view(tensors.weights);
    momentum.lerp_(gradient, constants.momentum_share);
    at::Tensor step = gradient * constants.gradient_part + momentum * constants.momentum_part;
    if (tensors.variance.defined()) {
      at::Tensor variance = view(tensors.variance);
      variance.mul_(constants.variance_keep)
          .addcmul_(gradient, gradient, 1 - constants.variance_keep);
      step = step / (variance.sqrt() * constants.root_scale + constants.epsilon);
    }
    weights.mul_(span.decays ? constants.weight_keep : 1).sub_(step);
  }
}

}  // namespace leeway
