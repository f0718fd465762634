// The shape of a model, and how it is cut into stages.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parameters.h"
#include "config/choices.h"

namespace leeway {

// The same for every model; Hugging Face's files state them next to the shape.
constexpr double kNormEpsilon = 1e-5;
constexpr double kRotaryBase = 10000.0;

struct ModelShape {
  Architecture architecture = Architecture::kLlama;
  Activation activation = Activation::kSwiglu;
  bool bias = false;  // in the linear layers and layer norms; never with kLlama
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t hidden = 0;
  int64_t context = 0;
  int64_t vocabulary = 0;

  bool operator==(const ModelShape&) const = default;
  int64_t head_size() const { return width / heads; }
  int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_size(); }
  // Rows of the feed-forward's first matrix: the gate, if there is one, then up.
  int64_t up_rows() const { return activation == Activation::kSwiglu ? 2 * hidden : hidden; }
};

// Layers [first_layer, first_layer + layers) and, at the ends, the embedding and the head.
struct StageSlice {
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool embeds = false;
  bool heads = false;
};

// Multiply-adds per token of one forward. The cut balances these.
double block_cost(const ModelShape& shape);
double slice_cost(const ModelShape& shape, const StageSlice& slice);

// Contiguous slices that minimize the largest cost; at least one layer each.
std::vector<StageSlice> cut_into_stages(const ModelShape& shape, int64_t stages);

inline StageSlice whole_model(const ModelShape& shape) {
  return {.first_layer = 0, .layers = shape.layers, .embeds = true, .heads = true};
}

// Names, kinds and offsets of a slice's parameters in its flat buffer. A parameter has the same
// name in every cut.
ParameterLayout slice_layout(const ModelShape& shape, const StageSlice& slice);

}  // namespace leeway
