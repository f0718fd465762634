#include <cmath>

#include "base/check.h"
#include "kernels/heads.h"
#include "model/layers.h"

namespace leeway {
namespace {

struct Heads {
  at::Tensor q, k, v;  // [batch, heads, time, head_size]
};

// Views of a [tokens, qkv_rows] tensor, before grouped keys and values are repeated.
Heads split_heads(const ModelShape& shape, int64_t time, const at::Tensor& qkv) {
  const at::Tensor by_head =
      qkv.view({qkv.size(0) / time, time, shape.heads + 2 * shape.kv_heads, shape.head_size()})
          .transpose(1, 2);
  return {by_head.narrow(1, 0, shape.heads), by_head.narrow(1, shape.heads, shape.kv_heads),
          by_head.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads)};
}

Heads repeat_groups(const ModelShape& shape, Heads heads) {
  const int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) return heads;
  return {heads.q, heads.k.repeat_interleave(group, 1), heads.v.repeat_interleave(group, 1)};
}

at::Tensor sum_groups(const ModelShape& shape, const at::Tensor& dx) {
  const int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) return dx;
  return dx.unflatten(1, {shape.kv_heads, group}).sum(2);
}

HeadColumns head_columns(const ModelShape& shape, int64_t time) {
  return {.heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_size = shape.head_size(),
          .time = time};
}

// Fused GPU kernels need a head size that is a multiple of 8. Padding with zeros changes no
// product, as long as the scale is that of the real head size.
at::Tensor padded(const at::Tensor& x) {
  const int64_t missing = x.is_cuda() ? (8 - x.size(3) % 8) % 8 : 0;
  return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
}

Heads padded(const Heads& h) { return {padded(h.q), padded(h.k), padded(h.v)}; }

// Which kernel a GPU runs; the CPU has only one. cuDNN's would be faster, but its backward does not
// repeat to the bit (docs/results/gpu.md).
bool uses_flash(const at::Tensor& q) {
  return q.scalar_type() == at::kBFloat16 && q.size(3) <= 256;
}

void run_forward(const Heads& h, double scale, AttentionSaved& saved) {
  if (h.q.is_cpu()) {
    std::tie(saved.out, saved.logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        h.q, h.k, h.v, 0.0, /*is_causal=*/true, /*attn_mask=*/{}, scale);
  } else if (uses_flash(h.q)) {
    auto result = at::_scaled_dot_product_flash_attention(h.q, h.k, h.v, 0.0, /*is_causal=*/true,
                                                          /*return_debug_mask=*/false, scale);
    saved.out = std::get<0>(result);
    saved.logsumexp = std::get<1>(result);
    saved.random_seed = std::get<6>(result);
    saved.random_offset = std::get<7>(result);
  } else {
    std::tie(saved.out, saved.logsumexp, saved.random_seed, saved.random_offset) =
        at::_scaled_dot_product_efficient_attention(h.q, h.k, h.v, /*attn_bias=*/{},
                                                    /*compute_log_sumexp=*/true, 0.0,
                                                    /*is_causal=*/true, scale);
  }
}

Heads run_backward(const Heads& h, double scale, const AttentionSaved& saved,
                   const at::Tensor& dy) {
  Heads d;
  const int64_t time = h.q.size(2);
  if (h.q.is_cpu()) {
    std::tie(d.q, d.k, d.v) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dy, h.q, h.k, h.v, saved.out, saved.logsumexp, 0.0, /*is_causal=*/true, /*attn_mask=*/{},
        scale);
  } else if (uses_flash(h.q)) {
    std::tie(d.q, d.k, d.v) = at::_scaled_dot_product_flash_attention_backward(
        dy, h.q, h.k, h.v, saved.out, saved.logsumexp, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, time,
        time, 0.0, /*is_causal=*/true, saved.random_seed, saved.random_offset, scale);
  } else {
    at::Tensor no_bias;
    std::tie(d.q, d.k, d.v, no_bias) = at::_scaled_dot_product_efficient_attention_backward(
        dy, h.q, h.k, h.v, /*attn_bias=*/{}, saved.out, saved.logsumexp, saved.random_seed,
        saved.random_offset, 0.0, {true, true, true, false}, /*is_causal=*/true, scale);
  }
  return d;
}

double scale_of(const ModelShape& shape) {
  return 1.0 / std::sqrt(static_cast<double>(shape.head_size()));
}

}  // namespace

RotaryTables make_rotary_tables(const ModelShape& shape, const at::TensorOptions& options) {
  // Angles in fp32 (fp64 for fp64 models), as other implementations do: a table in another
  // precision would be a different model.
  const at::ScalarType wide =
      options.dtype() == at::kDouble ? at::ScalarType::Double : at::ScalarType::Float;
  const at::TensorOptions cpu = at::TensorOptions().dtype(wide);
  const int64_t size = shape.head_size();
  const at::Tensor exponents = at::arange(0, size, 2, cpu) / static_cast<double>(size);
  const at::Tensor frequencies = at::pow(kRotaryBase, exponents).reciprocal();
  const at::Tensor angles = at::outer(at::arange(0, shape.context, cpu), frequencies);
  return {angles.cos().to(options), angles.sin().to(options)};
}

at::Tensor attention_forward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                             at::Tensor qkv, AttentionSaved& saved) {
  LEEWAY_CHECK(qkv.size(0) % time == 0, "whole sequences only");
  if (tables != nullptr) rotate_heads(head_columns(shape, time), *tables, qkv);
  const Heads h = padded(repeat_groups(shape, split_heads(shape, time, qkv)));
  run_forward(h, scale_of(shape), saved);
  saved.qkv = std::move(qkv);
  return saved.out.narrow(3, 0, shape.head_size())
      .transpose(1, 2)
      .reshape({saved.qkv.size(0), shape.width});
}

at::Tensor attention_backward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                              const AttentionSaved& saved, const at::Tensor& dy,
                              const at::Tensor& dbias) {
  const int64_t size = shape.head_size();
  const Heads h = padded(repeat_groups(shape, split_heads(shape, time, saved.qkv)));
  const at::Tensor dout = dy.view({dy.size(0) / time, time, shape.heads, size}).transpose(1, 2);
  const Heads d = run_backward(h, scale_of(shape), saved, padded(dout));
  const auto own = [&](const at::Tensor& heads) { return heads.narrow(3, 0, size); };
  return join_heads(head_columns(shape, time), tables,
                    {own(d.q), own(sum_groups(shape, d.k)), own(sum_groups(shape, d.v))}, dbias);
}

}  // namespace leeway
