// Number formats of averaging's messages. An encoded tensor is what a message carries: its bytes
// are the bytes counted as traffic.
//
//   f32      the values unchanged (fp64 in tests with fp64 weights): the same tensor
//   bf16     rounded to nearest
//   int8     blocks of 256: a scale (fp32, largest magnitude / 127), then integers; to nearest
//   int8_stochastic   the same, rounded up or down at random so that the mean is exact
//   ternary  blocks of 512: a scale (fp32, rounded to eight bits), then five values from {-1, 0, 1}
//            to a byte. Values of at least `threshold` root mean squares of the block, or .8 of its
//            largest, are kept; the scale is their mean magnitude. Messages carry it packed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/rng.h"
#include "config/choices.h"
#include "kernels/wire_blocks.h"

namespace leeway {

// `key`: for stochastic rounding; `threshold`: for ternary. Other formats ignore them.
at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key,
                  double threshold = kUsualThreshold);
at::Tensor decode(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);
// The size of what encode() returns for `count` values of this type.
int64_t encoded_bytes(WireFormat format, int64_t count, at::ScalarType type);
// Whether `encoded` can be the result of encode() for `count` values: received data is not trusted.
// Of a tensor on a GPU only shape, type and size are checked.
bool is_encoding(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);

// What a message carries of an encoded tensor, and back: ternary blocks on the CPU are packed
// (kernels/ternary_packing.h), everything else is the tensor itself, and so are blocks on a GPU.
at::Tensor pack(WireFormat format, const at::Tensor& encoded, int64_t count);
at::Tensor unpack(WireFormat format, const at::Tensor& packed, int64_t count);
// Whether a message that was received can be pack()'s. As is_encoding().
bool is_packed(WireFormat format, const at::Tensor& packed, int64_t count, at::ScalarType type);
// About how long that is: ternary's length depends on the values, and is that of values with a
// normal distribution here.
int64_t packed_bytes(WireFormat format, double threshold, int64_t count, at::ScalarType type);

}  // namespace leeway
