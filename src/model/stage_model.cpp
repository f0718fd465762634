#include "model/stage_model.h"

#include "base/check.h"
#include "kernels/activation.h"
#include "kernels/embedding.h"

namespace leeway {

StageModel::StageModel(const ModelShape& shape, const StageSlice& slice,
                       const at::TensorOptions& options)
    : shape_(shape), slice_(slice), layout_(slice_layout(shape, slice)) {
  if (shape_.architecture == Architecture::kLlama) rotary_ = make_rotary_tables(shape_, options);
}

at::Tensor StageModel::embed(const StageViews& w, const at::Tensor& ids) const {
  at::Tensor x = embedding_forward(w.embedding, ids.view(-1));
  if (w.positions.defined()) {
    const int64_t time = ids.size(1);
    x.view({-1, time, shape_.width}).add_(w.positions.narrow(0, 0, time));
  }
  return x;
}

at::Tensor StageModel::block_forward(const BlockViews& w, const at::Tensor& x, int64_t time,
                                     BlockSaved& saved) const {
  saved.attention_in = norm_forward(shape_.architecture, w.attention_norm, x, saved.attention_norm);
  saved.attention_out = attention_forward(
      shape_, tables(), time, linear_forward(w.qkv, saved.attention_in), saved.attention);
  const at::Tensor middle = linear_forward(w.out, saved.attention_out, x);
  saved.mlp_in = norm_forward(shape_.architecture, w.mlp_norm, middle, saved.mlp_norm);
  saved.up = linear_forward(w.up, saved.mlp_in);
  const at::Tensor hidden = activation_forward(shape_.activation, saved.up);
  if (!activation_repeats(shape_.activation, saved.up)) saved.hidden = hidden;
  return linear_forward(w.down, hidden, middle);
}

at::Tensor StageModel::block_backward(const BlockViews& w, const BlockSaved& saved,
                                      const at::Tensor& dy, int64_t time,
                                      const BlockViews& g) const {
  ColumnSums sums;
  const auto onto_bias = [&](const LinearViews& linear, const at::Tensor& rows) {
    if (linear.bias.defined()) sums.add_rows(rows, linear.bias);
  };
  const at::Tensor dhidden = linear_backward_input(w.down, dy);
  const ActivationGradient up =
      activation_backward(shape_.activation, saved.up, dhidden, {g.up.bias, sums});
  linear_backward_weight(saved.hidden.defined() ? saved.hidden : up.y, dy, g.down);
  onto_bias(g.down, dy);
  linear_backward_weight(saved.mlp_in, up.dx, g.up);
  const at::Tensor dmlp_in = linear_backward_input(w.up, up.dx);
  const at::Tensor dmiddle = norm_backward(shape_.architecture, w.mlp_norm, saved.mlp_norm, dmlp_in,
                                           {.residual = dy, .g = g.mlp_norm, .sums = sums});
  linear_backward_weight(saved.attention_out, dmiddle, g.out);
  onto_bias(g.out, dmiddle);
  const at::Tensor dout = linear_backward_input(w.out, dmiddle);
  const at::Tensor dqkv =
      attention_backward(shape_, tables(), time, saved.attention, dout, {g.qkv.bias, sums});
  linear_backward_weight(saved.attention_in, dqkv, g.qkv);
  const at::Tensor din = linear_backward_input(w.qkv, dqkv);
  at::Tensor dx = norm_backward(shape_.architecture, w.attention_norm, saved.attention_norm, din,
                                {.residual = dmiddle, .g = g.attention_norm, .sums = sums});
  sums.finish();
  return dx;
}

at::Tensor StageModel::forward(const StageViews& w, const at::Tensor& input,
                               StageSaved* saved) const {
  const int64_t batch = input.size(0);
  const int64_t time = input.size(1);
  LEEWAY_CHECK(time <= shape_.context, "the caller truncates the text to the context");
  at::Tensor x = slice_.embeds ? embed(w, input) : input.view({batch * time, shape_.width});
  if (saved != nullptr) {
    saved->time = time;
    saved->blocks.resize(w.blocks.size());
    if (slice_.embeds) saved->ids = input.view(-1);
  }
  for (size_t i = 0; i < w.blocks.size(); ++i) {
    BlockSaved unused;
    x = block_forward(w.blocks[i], x, time, saved != nullptr ? saved->blocks[i] : unused);
  }
  if (!slice_.heads) return x.view({batch, time, shape_.width});
  NormSaved unused;
  return norm_forward(shape_.architecture, w.final_norm, x,
                      saved != nullptr ? saved->final_norm : unused);
}

at::Tensor StageModel::backward(const StageViews& w, StageSaved saved, const at::Tensor& dy,
                                const StageViews& g) const {
  const int64_t time = saved.time;
  at::Tensor dx;
  if (slice_.heads) {
    dx = with_sums([&](ColumnSums& sums) {
      return norm_backward(shape_.architecture, w.final_norm, saved.final_norm, dy,
                           {.residual = {}, .g = g.final_norm, .sums = sums});
    });
  } else {
    dx = dy.view({-1, shape_.width});
  }
  for (size_t i = w.blocks.size(); i-- > 0;) {
    dx = block_backward(w.blocks[i], saved.blocks[i], dx, time, g.blocks[i]);
    saved.blocks.pop_back();  // frees activations as early as possible
  }
  if (!slice_.embeds) return dx.view({-1, time, shape_.width});
  embedding_backward(saved.ids, dx, g.embedding);
  if (g.positions.defined()) {
    g.positions.narrow(0, 0, time)
        .add_(dx.view({-1, time, shape_.width}).sum(0, /*keepdim=*/false, g.flat.scalar_type()));
  }
  return {};
}

}  // namespace leeway
