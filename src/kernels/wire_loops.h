// Encodes and decodes one block at a time, on the CPU. A block is its scale, fp32 in the machine's
// byte order (little endian everywhere we run; wire.cpp does not compile elsewhere), then codes.
#pragma once

#include <cstdint>

namespace leeway {

// Bytes of codes for `count` ternary values.
constexpr int64_t ternary_codes(int64_t count) { return (count + 4) / 5; }
// The same for values of int4.
constexpr int64_t int4_codes(int64_t count) { return (count + 1) / 2; }

// The functions below exist for float and double.

// A value that is not finite makes the scale not finite: the block arrives as NaN, as it would in
// f32. A block whose scale is below the smallest normal number becomes zero.
template <class Scalar>
void encode_int8_block(const Scalar* values, int64_t count, uint8_t* encoded);
template <class Scalar>
void encode_int8_stochastic_block(const Scalar* values, int64_t count, uint64_t random,
                                  uint8_t* encoded);
template <class Scalar>
void decode_int8_block(const uint8_t* encoded, int64_t count, Scalar* values);

// Byte k of B contains the values k, in its lower half, and k + B, in two's complement.
template <class Scalar>
void encode_int4_block(const Scalar* values, int64_t count, uint8_t* encoded);
template <class Scalar>
void decode_int4_block(const uint8_t* encoded, int64_t count, Scalar* values);

// Byte k of B contains the values k, k + B, .. k + 4 B, so that packing vectorizes: the first is
// the lowest base-3 digit, and a digit is its value plus 1. Kept are values of at least `threshold`
// root mean squares, or of .8 of the largest where that is less: so a block of equal values is
// never silent for ever. Their scale, the mean of what is kept, has eight bits, so that a message
// needs two bytes for it; error feedback makes up for the rest. A block with a value that is not
// finite is sent as zeros: with error feedback that value stays visible at the sender.
inline constexpr double kAlwaysKept = 0.8;  // of the largest
template <class Scalar>
void encode_ternary_block(const Scalar* values, int64_t count, double threshold, uint8_t* encoded);
template <class Scalar>
void decode_ternary_block(const uint8_t* encoded, int64_t count, Scalar* values);
// Whether these bytes can be such a block.
bool is_ternary_block(const uint8_t* encoded, int64_t count);

}  // namespace leeway
