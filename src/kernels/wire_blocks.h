// The wire formats that cut numbers into blocks with a scale each (averaging/wire.h). The twins
// write the same bytes; on a GPU numbers are fp32.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/rng.h"
#include "config/choices.h"
#include "kernels/subset.h"

namespace leeway {

inline constexpr int64_t kInt8Block = 256;
inline constexpr int64_t kTernaryBlock = 512;

bool has_blocks(WireFormat format);
// The size of `count` numbers.
int64_t blocks_bytes(WireFormat format, int64_t count);

// New tensors, on the same device. `key`: for stochastic rounding.
at::Tensor encode_blocks(WireFormat format, const at::Tensor& values, const RandomKey& key);
// On a GPU, a ternary block that nobody could have encoded decodes as zeros.
at::Tensor decode_blocks(WireFormat format, const at::Tensor& encoded, int64_t count,
                         at::ScalarType type);
// Whether bytes of the right number can be such blocks. On a GPU they count as such unseen: looking
// would stall whoever receives a message, and decoding is safe.
bool are_blocks(WireFormat format, const at::Tensor& encoded, int64_t count);

// Flat buffers of a common model (averaging/lowbit.h).
struct UnsentSteps {
  at::Tensor weights;
  at::Tensor common;
  at::Tensor pending;  // undefined: there is no smoothing
  double smoothing = 0;
  at::Tensor flight;
};
// a = w - X + l s - f; returns C(a) and adds what it says to f, in one pass over memory. Undefined,
// and nothing has changed, where there is no such pass: it is for ternary blocks of consecutive
// coordinates on a GPU.
at::Tensor contribute_in_one_pass(WireFormat format, const Subset& subset,
                                  const UnsentSteps& unsent);

struct OwedSteps {
  at::Tensor mean;      // of the subset's values
  at::Tensor share;     // one number on the same device, by which to multiply it
  at::Tensor residual;  // flat
};
// b = share mean + res; returns C(b) and leaves res = b - what it says. Undefined as above.
at::Tensor reduce_in_one_pass(WireFormat format, const Subset& subset, const OwedSteps& owed);

}  // namespace leeway
