// Layers as pairs of functions over views of flat buffers: forward keeps what backward needs, and
// backward adds to the gradient views and returns the gradient of its input. No autograd.
//
// Activations are [tokens, width] with the sequences of a microbatch one after the other. On the
// CPU, fp32 and fp64 use kernels/layers.h where that saves passes over memory; everything else is
// ATen.
#pragma once

#include <ATen/ATen.h>

#include "kernels/attention.h"
#include "kernels/heads.h"
#include "model/views.h"

namespace leeway {

// y = x W^T + b. `onto`, where defined, is added to the result: a residual for free.
at::Tensor linear_forward(const LinearViews& w, const at::Tensor& x, const at::Tensor& onto = {});
// Adds to g; returns dx.
at::Tensor linear_backward(const LinearViews& w, const at::Tensor& x, const at::Tensor& dy,
                           const LinearViews& g);
// Its parts, for callers that make the sum for the bias together with others, or x later than dx.
at::Tensor linear_backward_input(const LinearViews& w, const at::Tensor& dy);
void linear_backward_weight(const at::Tensor& x, const at::Tensor& dy, const LinearViews& g);

// RMSNorm for llama, LayerNorm for gpt2.
struct NormSaved {
  at::Tensor x;
  at::Tensor mean;  // LayerNorm only
  at::Tensor rstd;
};
at::Tensor norm_forward(Architecture architecture, const NormViews& w, const at::Tensor& x,
                        NormSaved& saved);
struct NormOnto {
  const at::Tensor& residual;  // is added to dx; undefined: nothing is
  const NormViews& g;
  ColumnSums& sums;  // g is complete when they are finished
};
// Returns dx.
at::Tensor norm_backward(Architecture architecture, const NormViews& w, const NormSaved& saved,
                         const at::Tensor& dy, const NormOnto& onto);

RotaryTables make_rotary_tables(const ModelShape& shape, const at::TensorOptions& options);

// Causal self-attention on the output of the qkv product. `tables` null: no rotation (GPT-2).
struct AttentionSaved {
  at::Tensor qkv;        // [tokens, qkv_rows], q and k rotated
  CausalAttention made;  // heads are padded on a GPU
};
at::Tensor attention_forward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                             at::Tensor qkv, AttentionSaved& saved);
// `bias` gets the sums of the result's rows.
at::Tensor attention_backward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                              const AttentionSaved& saved, const at::Tensor& dy,
                              const BiasSums& bias);

}  // namespace leeway
