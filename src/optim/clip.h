// Gradient clipping by norm. The factor is applied inside the update (UpdateArguments), so that
// clipping costs one read of the gradients and no write.
#pragma once

#include <cmath>
#include <cstdint>

namespace leeway {

// What the gradients are multiplied by so that their norm is at most `clip`; 0 means no clipping.
// The small number is PyTorch's (clip_grad_norm_), for equal losses. A norm that is not a number
// gives 1: what is wrong with the gradients stays visible.
inline double clip_scale(double squared_norm, double clip) {
  if (clip <= 0) return 1;
  const double scale = clip / (std::sqrt(squared_norm) + 1e-6);
  return scale < 1 ? scale : 1;
}

// The share of the model's `clip` that one stage gets where stages cannot wait for the global
// norm: gradients of equal size per coordinate are then clipped as they would be together.
inline double stage_clip(double clip, int64_t stage_parameters, int64_t model_parameters) {
  return clip *
         std::sqrt(static_cast<double>(stage_parameters) / static_cast<double>(model_parameters));
}

}  // namespace leeway
