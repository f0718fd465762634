// The wire formats that cut numbers into blocks with a scale each (averaging/wire.h). The twins
// write the same bytes; on a GPU numbers are fp32.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "config/choices.h"
#include "kernels/subset.h"

namespace leeway {

inline constexpr int64_t kInt8Block = 256;
inline constexpr int64_t kInt4Block = 64;
inline constexpr int64_t kTernaryBlock = 512;

bool has_blocks(WireFormat format);
// The size of `count` numbers.
int64_t blocks_bytes(WireFormat format, int64_t count);

// For whom a number is too small to be sent: kernels/wire_loops.h.
inline constexpr double kUsualThreshold = 0.6;

// New tensors, on the same device. `key`: for stochastic rounding. `threshold`: for ternary.
at::Tensor encode_blocks(WireFormat format, const at::Tensor& values, const RandomKey& key,
                         double threshold);
// On a GPU, a ternary block that nobody could have encoded decodes as zeros.
at::Tensor decode_blocks(WireFormat format, const at::Tensor& encoded, int64_t count,
                         at::ScalarType type);
// Whether it has the type and the size of that code.
bool is_code(WireFormat format, const at::Tensor& encoded, int64_t count);
// Whether bytes of the right number can be such blocks. On a GPU they count as such unseen: looking
// would stall whoever receives a message, and decoding is safe.
bool are_blocks(WireFormat format, const at::Tensor& encoded, int64_t count);

// Whether passes over the subset of a flat buffer encode and decode on the way: on a GPU, ternary
// blocks of consecutive coordinates.
bool is_coded_in_one_pass(WireFormat format, const Subset& subset, const at::Tensor& flat);

// Flat buffers of a common model (averaging/lowbit.h).
struct UnsentSteps {
  at::Tensor weights;
  at::Tensor common;
  at::Tensor pending;  // undefined: there is no smoothing
  double smoothing = 0;
  at::Tensor flight;                  // undefined: what is under way is listed, or there is nothing
  std::vector<at::Tensor> under_way;  // codes of the subset's values
  double threshold = kUsualThreshold;
};
inline constexpr size_t kCodesInOnePass = 3;
// a = w - X + l s - f; returns C(a) and adds what it says to f, in one pass over memory; without f,
// a = w - X + l s - q1 - q2... Undefined, and nothing has changed, where there is no such pass, or
// where more are under way than kCodesInOnePass, or some are not codes.
at::Tensor contribute_in_one_pass(WireFormat format, const Subset& subset,
                                  const UnsentSteps& unsent);

struct OwedSteps {
  std::vector<at::Tensor> parts;  // codes of the subset's values
  double share = 0;               // by which to multiply their mean
  at::Tensor residual;            // flat
  double threshold = kUsualThreshold;
};
struct CodedAnswer {
  at::Tensor code;
  at::Tensor sums;  // of the parts: those of FiniteMean (kernels/means.h)
};
// b = share mean + res; returns C(b) and leaves res = b - what it says. Undefined as above, and
// also where there are many parts, or some are not codes.
CodedAnswer reduce_in_one_pass(WireFormat format, const Subset& subset, const OwedSteps& owed);

}  // namespace leeway
