// Number formats that averaging travels in. An encoded tensor is what a message carries: its bytes
// are the bytes that are counted.
//
//   f32      the numbers as they are (fp64 in tests that keep their weights so): the same tensor
//   bf16     rounded to nearest
//   int8     blocks of 256: a scale (fp32, largest magnitude / 127), then whole numbers; to nearest
//   int8_stochastic   the same, rounded up or down so that the mean is right
//   int4     blocks of 128: a scale (fp32, largest magnitude / 7), then two numbers to a byte
//   ternary  blocks of 512: a scale (fp32), then five numbers from {-1, 0, 1} to a byte. Kept are
//            those above .6 of the block's root mean square; the scale is their mean magnitude.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/rng.h"
#include "config/choices.h"

namespace leeway {

inline constexpr int64_t kInt8Block = 256;
inline constexpr int64_t kInt4Block = 128;
inline constexpr int64_t kTernaryBlock = 512;

// `key`: of the stochastic rounding; the others do not look at it.
at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key);
at::Tensor decode(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);
// What encode() makes of `count` numbers of this type.
int64_t encoded_bytes(WireFormat format, int64_t count, at::ScalarType type);
// Whether `encoded` can be what encode() made of `count` numbers: what arrives is input.
bool is_encoding(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type);

}  // namespace leeway
