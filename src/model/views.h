// Views of a flat buffer as the tensors of its slice. The same type is used for weights and for
// gradients.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/shape.h"

namespace leeway {

struct NormViews {
  at::Tensor weight;
  at::Tensor bias;  // undefined if the model has none; same below
};

struct LinearViews {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;
};

struct BlockViews {
  NormViews attention_norm;
  LinearViews qkv;  // q, k and v in one matrix
  LinearViews out;
  NormViews mlp_norm;
  LinearViews up;  // gate and up in one matrix
  LinearViews down;
};

struct StageViews {
  at::Tensor flat;
  at::Tensor embedding;
  at::Tensor positions;
  std::vector<BlockViews> blocks;
  NormViews final_norm;
  LinearViews head;
};

StageViews view_stage(const at::Tensor& flat, const ModelShape& shape, const StageSlice& slice);

// The head's rows as a GPU's matrix products want them: a multiple of 128. The head is the last
// parameter of a slice, so a buffer that goes on behind its numbers, with zeros, has room for them.
int64_t padded_vocabulary(const ModelShape& shape, const at::Device& device);
// A flat buffer of zeros for this slice, with such a tail; and its views with a head of that size.
at::Tensor make_padded(const ModelShape& shape, const StageSlice& slice,
                       const at::TensorOptions& options);
StageViews view_padded(const at::Tensor& flat, const ModelShape& shape, const StageSlice& slice);

}  // namespace leeway
