// Stands in for CUDA's header of this name: the functions that our kernels use.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {leeway::bf16_of(value)}; }
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
