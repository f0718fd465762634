// Gradient clipping by norm. The factor is applied inside the update, so that clipping costs one
// read of the gradients and no write.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/simd.h"

namespace leeway {

// The factor that limits the gradients' norm to `clip`; 0 means no clipping. The 1e-6 is PyTorch's
// (clip_grad_norm_), so that losses match. A NaN norm gives 1, so that bad gradients stay visible.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE double clip_scale(double squared_norm, double clip) {
  if (clip <= 0) return 1;
  const double scale = clip / (sqrt(squared_norm) + 1e-6);
  return scale < 1 ? scale : 1;
}

// One stage's share of the model's `clip`, where stages do not wait for the global norm. Gradients
// of equal size per coordinate are then clipped as they would be by the global norm.
inline double stage_clip(double clip, int64_t stage_parameters, int64_t model_parameters) {
  return clip *
         std::sqrt(static_cast<double>(stage_parameters) / static_cast<double>(model_parameters));
}

}  // namespace leeway
