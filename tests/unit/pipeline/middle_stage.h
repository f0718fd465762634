// The middle one of three small stages, and how it is cut.
#pragma once

#include <vector>

#include "pipeline/memory_plan.h"

namespace leeway {

inline ModelShape small_shape() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 3,
          .width = 8,
          .heads = 2,
          .kv_heads = 2,
          .hidden = 12,
          .context = 2,
          .vocabulary = 11};
}

// Neither first nor last, so that only activations go in and out.
inline StageOptions middle_stage() {
  return {.shape = small_shape(),
          .slice = {.first_layer = 1, .layers = 1, .embeds = false, .heads = false},
          .update = {.rule = UpdateRule::kAdamW}};
}

inline std::vector<StageOptions> cut(int64_t stages, const StageOptions& like) {
  std::vector<StageOptions> all;
  for (const StageSlice& slice : cut_into_stages(like.shape, stages)) {
    all.push_back(like);
    all.back().slice = slice;
  }
  return all;
}

}  // namespace leeway
