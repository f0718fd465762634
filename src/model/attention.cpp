#include <cmath>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/heads.h"
#include "model/layers.h"

namespace leeway {
namespace {

// Views of a [tokens, qkv_rows] tensor, before grouped keys and values are repeated.
AttentionHeads split_heads(const ModelShape& shape, int64_t time, const at::Tensor& qkv) {
  const at::Tensor by_head =
      qkv.view({qkv.size(0) / time, time, shape.heads + 2 * shape.kv_heads, shape.head_size()})
          .transpose(1, 2);
  return {by_head.narrow(1, 0, shape.heads), by_head.narrow(1, shape.heads, shape.kv_heads),
          by_head.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads)};
}

AttentionHeads repeat_groups(const ModelShape& shape, AttentionHeads heads) {
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

AttentionHeads padded(const AttentionHeads& h) { return {padded(h.q), padded(h.k), padded(h.v)}; }

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
  const AttentionHeads h = padded(repeat_groups(shape, split_heads(shape, time, qkv)));
  saved.made = causal_attention(h, scale_of(shape));
  saved.qkv = std::move(qkv);
  return saved.made.out.narrow(3, 0, shape.head_size())
      .transpose(1, 2)
      .reshape({saved.qkv.size(0), shape.width});
}

at::Tensor attention_backward(const ModelShape& shape, const RotaryTables* tables, int64_t time,
                              const AttentionSaved& saved, const at::Tensor& dy,
                              const BiasSums& bias) {
  const int64_t size = shape.head_size();
  const AttentionHeads h = padded(repeat_groups(shape, split_heads(shape, time, saved.qkv)));
  const at::Tensor dout = dy.view({dy.size(0) / time, time, shape.heads, size}).transpose(1, 2);
  const AttentionHeads d = causal_attention_backward(h, scale_of(shape), saved.made, padded(dout));
  const auto own = [&](const at::Tensor& heads) { return heads.narrow(3, 0, size); };
  return join_heads(head_columns(shape, time), tables,
                    {own(d.q), own(sum_groups(shape, d.k)), own(sum_groups(shape, d.v))}, bias);
}

}  // namespace leeway
