#include "kernels/wire_loops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/simd.h"
#include "kernels/bf16.h"

namespace leeway {
namespace {

constexpr int64_t kScaleBytes = 4;
constexpr int64_t kTernaryMax = 512;
constexpr int64_t kInt4Max = 64;
constexpr int kPlanes = 5;  // values per byte
constexpr int64_t kSums = 16;
using Lanes = std::array<double, kSums>;

template <class Scalar>
using BitsOf = std::conditional_t<std::is_same_v<Scalar, float>, int32_t, int64_t>;

// Adding it leaves no bits for a fraction: the sum is rounded to nearest even, and its lowest byte
// is the integer. This avoids a conversion, which would be undefined for NaN.
template <class Scalar>
constexpr Scalar kRounder = static_cast<Scalar>(std::is_same_v<Scalar, float> ? 0x1.8p23
                                                                              : 0x1.8p52);

// The largest integers of a code.
constexpr int kInt8Most = 127;
constexpr int kInt4Most = 7;

LEEWAY_SIMD_BODY float scale_of(const uint8_t* encoded) {
  float scale = 0;
  std::memcpy(&scale, encoded, sizeof scale);
  return scale;
}

// Compares the bits as integers: they order like magnitudes, with NaN above everything.
template <class Scalar>
LEEWAY_SIMD_BODY Scalar largest_magnitude(const Scalar* values, int64_t count) {
  using Bits = BitsOf<Scalar>;
  Bits largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Bits bits = std::bit_cast<Bits>(values[i]) & std::numeric_limits<Bits>::max();
    largest = largest > bits ? largest : bits;
  }
  return std::bit_cast<Scalar>(largest);
}

// Writes the scale and returns the factor to multiply values by.
template <int kMost, class Scalar>
LEEWAY_SIMD_BODY Scalar write_scale(const Scalar* values, int64_t count, uint8_t* encoded) {
  float scale = static_cast<float>(largest_magnitude(values, count) / Scalar{kMost});
  if (scale < std::numeric_limits<float>::min()) scale = 0;  // its inverse would not be finite
  std::memcpy(encoded, &scale, sizeof scale);
  return scale == 0 ? Scalar{0} : 1 / static_cast<Scalar>(scale);
}

// The scale is rounded, so the largest value may end up slightly out of range.
template <int kMost, class Scalar>
LEEWAY_SIMD_BODY Scalar clamped(Scalar value) {
  const Scalar most = kMost;
  value = value > most ? most : value;
  return value < -most ? -most : value;
}

template <class Scalar>
LEEWAY_SIMD_BODY uint8_t low_byte(Scalar rounded) {
  return static_cast<uint8_t>(std::bit_cast<BitsOf<Scalar>>(rounded));
}

// Chris Wellons's lowbias32: 32-bit products vectorize, 64-bit ones are slow.
LEEWAY_SIMD_BODY uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16U)) * 0x7feb352dU;
  x = (x ^ (x >> 15U)) * 0x846ca68bU;
  return x ^ (x >> 16U);
}

// Sums of whole lanes, in fp64. Values are padded with zeros, which change no sum.
template <bool kSquares, class Scalar>
LEEWAY_SIMD_BODY double lane_sum(const Scalar* values, int64_t padded) {
  Lanes lanes = {};
  for (int64_t i = 0; i < padded; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[static_cast<size_t>(lane)] += kSquares ? value * value : value;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

struct TernaryRule {
  double threshold = 0;
  float scale = 0;
};

template <class Scalar>
LEEWAY_SIMD_BODY TernaryRule ternary_rule(const Scalar* values, int64_t padded, int64_t count,
                                          double times_rms) {
  const double square = lane_sum<true>(values, padded) / static_cast<double>(count);
  const double usual = times_rms * std::sqrt(square);
  const double largest = kAlwaysKept * static_cast<double>(largest_magnitude(values, padded));
  const double threshold = usual < largest ? usual : largest;
  // Zeros are never kept.
  const Scalar least = std::numeric_limits<Scalar>::denorm_min();
  const Scalar compared =
      static_cast<Scalar>(threshold) > least ? static_cast<Scalar>(threshold) : least;
  // Separate from the sum: a conditional conversion to fp64 would be a branch.
  std::array<Scalar, kTernaryMax + kSums> kept;
  BitsOf<Scalar> kept_count = 0;
  for (int64_t i = 0; i < padded; ++i) {
    const Scalar size = std::abs(values[i]);
    kept[static_cast<size_t>(i)] = size >= compared ? size : Scalar{0};
    kept_count += size >= compared ? 1 : 0;
  }
  const double mean = lane_sum<false>(kept.data(), padded) / static_cast<double>(kept_count);
  const float scale = bf16_value(bf16_of(static_cast<float>(mean)));  // NaN if none is kept
  const bool usable = threshold < std::numeric_limits<double>::infinity() &&
                      scale < std::numeric_limits<float>::infinity();
  if (!usable) return {.threshold = std::numeric_limits<double>::infinity(), .scale = 0};
  return {.threshold = static_cast<double>(compared), .scale = scale};
}

}  // namespace

template <class Scalar>
LEEWAY_SIMD void encode_int8_block(const Scalar* values, int64_t count, uint8_t* encoded) {
  const Scalar inverse = write_scale<kInt8Most>(values, count, encoded);
  uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    codes[i] = low_byte(clamped<kInt8Most>(values[i] * inverse) + kRounder<Scalar>);
  }
}

template <class Scalar>
LEEWAY_SIMD void encode_int8_stochastic_block(const Scalar* values, int64_t count, uint64_t random,
                                              uint8_t* encoded) {
  const Scalar inverse = write_scale<kInt8Most>(values, count, encoded);
  const auto start = static_cast<uint32_t>(random);
  const auto step = static_cast<uint32_t>(random >> 32U) | 1U;
  uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    const Scalar value = clamped<kInt8Most>(values[i] * inverse);
    const Scalar nearest = (value + kRounder<Scalar>)-kRounder<Scalar>;
    const Scalar below = nearest - (nearest > value ? Scalar{1} : Scalar{0});
    // value - below is exact, so the chance of rounding up is exact to 24 bits.
    const uint32_t bits = mixed(start + static_cast<uint32_t>(i) * step) >> 8U;
    const Scalar chance = static_cast<Scalar>(static_cast<int32_t>(bits)) * Scalar{0x1p-24F};
    const Scalar up = chance < value - below ? Scalar{1} : Scalar{0};
    codes[i] = low_byte(below + up + kRounder<Scalar>);
  }
}

template <class Scalar>
LEEWAY_SIMD void decode_int8_block(const uint8_t* encoded, int64_t count, Scalar* values) {
  const Scalar scale = static_cast<Scalar>(scale_of(encoded));
  const uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<Scalar>(static_cast<int8_t>(codes[i])) * scale;
  }
}

template <class Scalar>
LEEWAY_SIMD void encode_int4_block(const Scalar* values, int64_t count, uint8_t* encoded) {
  const Scalar inverse = write_scale<kInt4Most>(values, count, encoded);
  const int64_t bytes = int4_codes(count);
  std::array<uint8_t, kInt4Max + 1> halves;
  halves[static_cast<size_t>(count)] = 0;  // the upper half of the last byte may have no value
  for (int64_t i = 0; i < count; ++i) {
    const Scalar rounded = clamped<kInt4Most>(values[i] * inverse) + kRounder<Scalar>;
    halves[static_cast<size_t>(i)] = low_byte(rounded) & 15U;
  }
  const uint8_t* const half = halves.data();
  uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t k = 0; k < bytes; ++k) {
    codes[k] = static_cast<uint8_t>(half[k] | half[k + bytes] << 4);
  }
}

template <class Scalar>
LEEWAY_SIMD void decode_int4_block(const uint8_t* encoded, int64_t count, Scalar* values) {
  const Scalar scale = static_cast<Scalar>(scale_of(encoded));
  const int64_t bytes = int4_codes(count);
  const uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t k = 0; k < bytes; ++k) {
    values[k] = static_cast<Scalar>(static_cast<int8_t>(codes[k] << 4) >> 4) * scale;
  }
  LEEWAY_INDEPENDENT
  for (int64_t k = 0; k < count - bytes; ++k) {
    values[bytes + k] = static_cast<Scalar>(static_cast<int8_t>(codes[k]) >> 4) * scale;
  }
}

template <class Scalar>
LEEWAY_SIMD void encode_ternary_block(const Scalar* values, int64_t count, double times_rms,
                                      uint8_t* encoded) {
  // Padded: to whole lanes for the sums, to whole bytes for the digits.
  std::array<Scalar, kTernaryMax + kSums> copy;
  const int64_t padded = (count + kSums - 1) / kSums * kSums;
  const int64_t bytes = ternary_codes(count);
  std::copy_n(values, count, copy.begin());
  std::fill(copy.begin() + count, copy.begin() + std::max(padded, kPlanes * bytes), Scalar{0});
  const TernaryRule rule = ternary_rule(copy.data(), padded, count, times_rms);
  std::memcpy(encoded, &rule.scale, sizeof rule.scale);

  const auto threshold = static_cast<Scalar>(rule.threshold);
  std::array<uint8_t, kTernaryMax + kSums> digits;
  for (int64_t i = 0; i < kPlanes * bytes; ++i) {
    const Scalar value = copy[static_cast<size_t>(i)];
    digits[static_cast<size_t>(i)] =
        static_cast<uint8_t>(1 + (value >= threshold) - (value <= -threshold));
  }
  const uint8_t* const d = digits.data();
  uint8_t* const codes = encoded + kScaleBytes;
  LEEWAY_INDEPENDENT
  for (int64_t k = 0; k < bytes; ++k) {
    codes[k] = static_cast<uint8_t>(d[k] + 3 * d[k + bytes] + 9 * d[k + 2 * bytes] +
                                    27 * d[k + 3 * bytes] + 81 * d[k + 4 * bytes]);
  }
}

template <class Scalar>
LEEWAY_SIMD void decode_ternary_block(const uint8_t* encoded, int64_t count, Scalar* values) {
  const Scalar scale = static_cast<Scalar>(scale_of(encoded));
  const int64_t bytes = ternary_codes(count);
  std::array<uint16_t, kTernaryMax / 4> rest;
  for (int64_t k = 0; k < bytes; ++k) rest[static_cast<size_t>(k)] = encoded[kScaleBytes + k];
  for (int64_t begin = 0; begin < count; begin += bytes) {
    const int64_t length = std::min(bytes, count - begin);
    Scalar* const plane = values + begin;
    LEEWAY_INDEPENDENT
    for (int64_t k = 0; k < length; ++k) {
      const uint16_t code = rest[static_cast<size_t>(k)];
      const auto third = static_cast<uint16_t>((code * 171) >> 9);  // code / 3 for any byte
      rest[static_cast<size_t>(k)] = third;
      const int digit = code - 3 * third;
      plane[k] = static_cast<Scalar>(digit - 1) * scale;
    }
  }
}

bool is_ternary_block(const uint8_t* encoded, int64_t count) {
  const float scale = scale_of(encoded);
  if (!std::isfinite(scale) || scale < 0) return false;
  uint8_t largest = 0;
  for (int64_t k = 0; k < ternary_codes(count); ++k) {
    largest = std::max(largest, encoded[kScaleBytes + k]);
  }
  return largest < 243;
}

template void encode_int8_block(const float*, int64_t, uint8_t*);
template void encode_int8_stochastic_block(const float*, int64_t, uint64_t, uint8_t*);
template void decode_int8_block(const uint8_t*, int64_t, float*);
template void encode_int4_block(const float*, int64_t, uint8_t*);
template void decode_int4_block(const uint8_t*, int64_t, float*);
template void encode_ternary_block(const float*, int64_t, double, uint8_t*);
template void decode_ternary_block(const uint8_t*, int64_t, float*);

template void encode_int8_block(const double*, int64_t, uint8_t*);
template void encode_int8_stochastic_block(const double*, int64_t, uint64_t, uint8_t*);
template void decode_int8_block(const uint8_t*, int64_t, double*);
template void encode_int4_block(const double*, int64_t, uint8_t*);
template void decode_int4_block(const uint8_t*, int64_t, double*);
template void encode_ternary_block(const double*, int64_t, double, uint8_t*);
template void decode_ternary_block(const uint8_t*, int64_t, double*);

}  // namespace leeway
