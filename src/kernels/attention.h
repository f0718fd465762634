// Causal attention over all heads at once, by LibTorch's fused kernels.
#pragma once

#include <ATen/core/Tensor.h>

namespace leeway {

// [batch, heads, time, head_size]
struct AttentionHeads {
  at::Tensor q, k, v;
};

struct CausalAttention {
  at::Tensor out;  // like q
  at::Tensor logsumexp;
  at::Tensor random_seed;  // CUDA's backward needs these, even without dropout
  at::Tensor random_offset;
};

CausalAttention causal_attention(const AttentionHeads& heads, double scale);
// The gradients of q, k and v.
AttentionHeads causal_attention_backward(const AttentionHeads& heads, double scale,
                                         const CausalAttention& forward, const at::Tensor& dy);

}  // namespace leeway
