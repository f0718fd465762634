// Small models with the proportions of real ones, so that a forgotten tensor is noticed.
#pragma once

#include "model/shape.h"

namespace leeway {

inline ModelShape small_llama() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 4,
          .width = 64,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 192,
          .context = 32,
          .vocabulary = 257};
}

inline ModelShape small_gpt2() {
  ModelShape shape = small_llama();
  shape.architecture = Architecture::kGpt2;
  shape.activation = Activation::kGelu;
  shape.bias = true;
  shape.kv_heads = shape.heads;
  shape.hidden = 256;
  return shape;
}

}  // namespace leeway
