// Number formats of averaging's messages. An encoded tensor is what a message carries: its bytes
// are the bytes counted as traffic.
//
//   f32      the values unchanged (fp64 in tests with fp64 weights): the same tensor
//   bf16     rounded to nearest
//   int8     blocks of 256: a scale (fp32, largest magnitude / 127), then integers; to nearest
//   int8_stochastic   the same, rounded up or down at random so that the mean is exact
//   ternary  blocks of 512: a scale (fp32), then five values from {-1, 0, 1} to a byte. Values
//            above .6 of the block's root mean square are kept; the scale is their mean magnitude.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/rng.h"
#include "config/choices.h"
#include "kernels/wire_blocks.h"

namespace leeway {

// `key`: for stochastic rounding; other formats ignore it.
at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key);
at::Tensor decode(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);
// The size of what encode() returns for `count` values of this type.
int64_t encoded_bytes(WireFormat format, int64_t count, at::ScalarType type);
// Whether `encoded` can be the result of encode() for `count` values: received data is not trusted.
// Of a tensor on a GPU only shape, type and size are checked.
bool is_encoding(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);

}  // namespace leeway
