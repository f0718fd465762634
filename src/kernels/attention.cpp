#include "kernels/attention.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "kernels/gpu.h"

namespace leeway {
namespace {

bool uses_flash(const at::Tensor& q) {
  return q.scalar_type() == at::kBFloat16 && q.size(3) <= 256;
}

// Its attention is that of version 9; older ones are refused only where they are called.
bool has_cudnn_attention() {
  constexpr long kVersion = 90000;
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  return hooks.hasCuDNN() && hooks.versionCuDNN() >= kVersion;
}

// Shapes for which cuDNN's forward was measured: up to twice as fast as flash's, the same bits
// every time, and what flash's backward needs. Its own backward does not repeat to the bit
// (docs/results/gpu.md).
bool uses_cudnn(const at::Tensor& q) {
  constexpr int64_t kWholeBlocks = 128;
  return uses_flash(q) && (q.size(3) == 64 || q.size(3) == 128) && q.size(2) % kWholeBlocks == 0 &&
         is_hopper(q.get_device()) && has_cudnn_attention();
}

CausalAttention cudnn_forward(const AttentionHeads& h, double scale) {
  const auto made = at::_scaled_dot_product_cudnn_attention(
      h.q, h.k, h.v, /*attn_bias=*/{}, /*compute_log_sumexp=*/true, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  const at::TensorOptions unused = h.q.options().dtype(at::kUInt64);
  return {.out = std::get<0>(made),
          .logsumexp = std::get<1>(made).view({h.q.size(0), h.q.size(1), h.q.size(2)}),
          .random_seed = at::empty({2}, unused),
          .random_offset = at::empty({}, unused)};
}

CausalAttention flash_forward(const AttentionHeads& h, double scale) {
  const auto made = at::_scaled_dot_product_flash_attention(
      h.q, h.k, h.v, /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  return {.out = std::get<0>(made),
          .logsumexp = std::get<1>(made),
          .random_seed = std::get<6>(made),
          .random_offset = std::get<7>(made)};
}

}  // namespace

CausalAttention causal_attention(const AttentionHeads& h, double scale) {
  CausalAttention made;
  if (h.q.is_cpu()) {
    std::tie(made.out, made.logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        h.q, h.k, h.v, 0.0, /*is_causal=*/true, /*attn_mask=*/{}, scale);
  } else if (uses_cudnn(h.q)) {
    made = cudnn_forward(h, scale);
  } else if (uses_flash(h.q)) {
    made = flash_forward(h, scale);
  } else {
    std::tie(made.out, made.logsumexp, made.random_seed, made.random_offset) =
        at::_scaled_dot_product_efficient_attention(h.q, h.k, h.v, /*attn_bias=*/{},
                                                    /*compute_log_sumexp=*/true, 0.0,
                                                    /*is_causal=*/true, scale);
  }
  return made;
}

AttentionHeads causal_attention_backward(const AttentionHeads& h, double scale,
                                         const CausalAttention& forward, const at::Tensor& dy) {
  AttentionHeads d;
  const int64_t time = h.q.size(2);
  if (h.q.is_cpu()) {
    std::tie(d.q, d.k, d.v) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dy, h.q, h.k, h.v, forward.out, forward.logsumexp, 0.0, /*is_causal=*/true,
        /*attn_mask=*/{}, scale);
  } else if (uses_flash(h.q)) {
    std::tie(d.q, d.k, d.v) = at::_scaled_dot_product_flash_attention_backward(
        dy, h.q, h.k, h.v, forward.out, forward.logsumexp, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, time,
        time, 0.0, /*is_causal=*/true, forward.random_seed, forward.random_offset, scale);
  } else {
    at::Tensor no_bias;
    std::tie(d.q, d.k, d.v, no_bias) = at::_scaled_dot_product_efficient_attention_backward(
        dy, h.q, h.k, h.v, /*attn_bias=*/{}, forward.out, forward.logsumexp, forward.random_seed,
        forward.random_offset, 0.0, {true, true, true, false}, /*is_causal=*/true, scale);
  }
  return d;
}

}  // namespace leeway
