// The layers of one stage as one forward and one backward. Has no weights of its own: they are
// passed in as views of a flat buffer, so the caller decides which version to use.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/head.h"
#include "model/layers.h"
#include "model/shape.h"
#include "model/views.h"

namespace leeway {

struct BlockSaved {
  NormSaved attention_norm;
  at::Tensor attention_in;  // the norm's output
  AttentionSaved attention;
  at::Tensor attention_out;  // before the out product
  NormSaved mlp_norm;
  at::Tensor mlp_in;
  at::Tensor up;      // before the non-linearity
  at::Tensor hidden;  // after it; undefined if the backward makes it again
};

// What a backward needs from its forward. Used once.
struct StageSaved {
  at::Tensor ids;  // first stage
  int64_t time = 0;
  std::vector<BlockSaved> blocks;
  NormSaved final_norm;  // last stage
};

class StageModel {
 public:
  // `options`: dtype and device of the compute copies.
  StageModel(const ModelShape& shape, const StageSlice& slice, const at::TensorOptions& options);

  const ModelShape& shape() const { return shape_; }
  const StageSlice& slice() const { return slice_; }
  const ParameterLayout& layout() const { return layout_; }
  StageViews view(const at::Tensor& flat) const { return view_stage(flat, shape_, slice_); }
  // A buffer of zeros whose head is padded where the device wants it, and its views.
  at::Tensor make_flat(const at::TensorOptions& options) const {
    return make_padded(shape_, slice_, options);
  }
  StageViews view_flat(const at::Tensor& flat) const { return view_padded(flat, shape_, slice_); }

  // First stage: input is ids [batch, time]. Others: activations [batch, time, width]. Returns
  // activations [batch, time, width]; the last stage what its head takes (model/head.h), [batch *
  // time, width]. `saved` null: evaluation, nothing is kept.
  at::Tensor forward(const StageViews& w, const at::Tensor& input, StageSaved* saved) const;

  // Last stage, as an evaluation: [batch * time, rows of the head], and the mean over the targets.
  at::Tensor logits(const StageViews& w, const at::Tensor& input) const {
    return linear_forward(w.head, forward(w, input, nullptr));
  }
  at::Tensor loss(const StageViews& w, const at::Tensor& input, const at::Tensor& targets) const {
    return head_loss(w.head, forward(w, input, nullptr), targets.view(-1), shape_.vocabulary);
  }

  // dy has the shape of the output. Adds to g; returns the gradient of the input (undefined for
  // the first stage).
  at::Tensor backward(const StageViews& w, StageSaved saved, const at::Tensor& dy,
                      const StageViews& g) const;

 private:
  at::Tensor embed(const StageViews& w, const at::Tensor& ids) const;
  at::Tensor block_forward(const BlockViews& w, const at::Tensor& x, int64_t time,
                           BlockSaved& saved) const;
  at::Tensor block_backward(const BlockViews& w, const BlockSaved& saved, const at::Tensor& dy,
                            int64_t time, const BlockViews& g) const;
  const RotaryTables* tables() const {
    return shape_.architecture == Architecture::kLlama ? &rotary_ : nullptr;
  }

  ModelShape shape_;
  StageSlice slice_;
  ParameterLayout layout_;
  RotaryTables rotary_;
};

}  // namespace leeway
