// Layers as pairs of functions over views of flat buffers: forward keeps what backward needs, and
// backward adds to the gradient views and returns the gradient of its input. No autograd.
//
// Activations are [tokens, width] with the sequences of a microbatch one after the other. On the
// CPU, fp32 and fp64 use kernels/layers.h where that saves passes over memory; everything else is
// ATen.
#pragma once

#include <ATen/ATen.h>

#include "model/views.h"

namespace leeway {

// y = x W^T + b. `onto`, where defined, is added to the result: a residual for free.
at::Tensor linear_forward(const LinearViews& w, const at::Tensor& x, const at::Tensor& onto = {});
// Adds to g; returns dx.
at::Tensor linear_backward(const LinearViews& w, const at::Tensor& x, const at::Tensor& dy,
                           const LinearViews& g);
// The same without dx.
void linear_backward_weights(const at::Tensor& x, const at::Tensor& dy, const LinearViews& g);

// RMSNorm for llama, LayerNorm for gpt2.
struct NormSaved {
  at::Tensor x;
  at::Tensor mean;  // LayerNorm only
  at::Tensor rstd;
};
at::Tensor norm_forward(Architecture architecture, const NormViews& w, const at::Tensor& x,
                        NormSaved& saved);
// Returns dx + residual: callers always need the sum.
at::Tensor norm_backward(Architecture architecture, const NormViews& w, const NormSaved& saved,
                         const at::Tensor& dy, const at::Tensor& residual, const NormViews& g);

// Rotary positions (rotate-half form), tables for all positions of a context.
struct RotaryTables {
  at::Tensor cosine;  // [context, head_size / 2]
  at::Tensor sine;
};
RotaryTables make_rotary_tables(const ModelShape& shape, const at::TensorOptions& options);

// Causal self-attention on the output of the qkv product. `tables` null: no rotation (GPT-2).
struct AttentionSaved {
  at::Tensor qkv;  // [tokens, qkv_rows], q and k rotated
  at::Tensor out;  // [batch, heads, time, head_size, padded on a GPU]
  at::Tensor logsumexp;
  at::Tensor random_seed;  // CUDA's backward needs these, even without dropout
  at::Tensor random_offset;
};
at::Tensor attention_forward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                             at::Tensor qkv, AttentionSaved& saved);
at::Tensor attention_backward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                              const AttentionSaved& saved, const at::Tensor& dy);

// The non-linearity between up and down: SwiGLU halves its input's width.
at::Tensor activation_forward(Activation activation, const at::Tensor& x);
at::Tensor activation_backward(Activation activation, const at::Tensor& x, const at::Tensor& dy);

at::Tensor embedding_forward(const at::Tensor& table, const at::Tensor& ids);
void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g);

}  // namespace leeway
