// The heads of attention: their rotation by position, and the way back from three gradients to the
// rows of one product.
#pragma once

#include <ATen/ATen.h>

#include "kernels/columns.h"

namespace leeway {

// Rotary positions (rotate-half form), tables for all positions of a context.
struct RotaryTables {
  at::Tensor cosine;  // [context, head_size / 2]
  at::Tensor sine;
};

// How the columns of a row are divided: `heads` for q, then `kv_heads` each for k and v.
struct HeadColumns {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t time = 0;  // tokens per sequence; a token is a row
};

// Rotates q and k in place.
void rotate_heads(const HeadColumns& columns, const RotaryTables& tables, const at::Tensor& qkv);

// The gradient of qkv from those of q, k and v as they were after the rotation, [batch, heads,
// time, head_size] each. `tables` null: there was none. `bias` gets the sums of the result's rows.
struct HeadGradients {
  at::Tensor q, k, v;
};
at::Tensor join_heads(const HeadColumns& columns, const RotaryTables* tables,
                      const HeadGradients& gradients, const BiasSums& bias);

}  // namespace leeway
