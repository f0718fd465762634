// One block of an encoding at a time, on the CPU. A block is its scale, fp32 in the byte order of
// the machine (little endian everywhere we run; wire.cpp refuses to compile elsewhere), then codes.
#pragma once

#include <cstdint>

namespace leeway {

// Bytes of codes of `count` ternary numbers.
constexpr int64_t ternary_codes(int64_t count) { return (count + 4) / 5; }

// Bytes of codes of `count` numbers of four bits.
constexpr int64_t int4_codes(int64_t count) { return (count + 1) / 2; }

// What follows is there for float and double.

// A number that is not finite makes a scale that is not: the block arrives as NaN, as it would in
// f32. Blocks of less than the smallest normal number are zero.
template <class Scalar>
void encode_int8_block(const Scalar* values, int64_t count, uint8_t* encoded);
template <class Scalar>
void encode_int8_stochastic_block(const Scalar* values, int64_t count, uint64_t random,
                                  uint8_t* encoded);
template <class Scalar>
void decode_int8_block(const uint8_t* encoded, int64_t count, Scalar* values);

// Byte k of B has the number k in its low half and k + B in its high one, each 8 more than it says.
template <class Scalar>
void encode_int4_block(const Scalar* values, int64_t count, uint8_t* encoded);
template <class Scalar>
void decode_int4_block(const uint8_t* encoded, int64_t count, Scalar* values);

// Byte k of B has the numbers k, k + B, .. k + 4 B, so that neighbours are packed by vectors: the
// first is its lowest digit to the base of 3, and digits are 1 more than what they say.
// A block with a number that is not finite is sent as zeros: with error feedback it stays, visible,
// where it came from.
template <class Scalar>
void encode_ternary_block(const Scalar* values, int64_t count, uint8_t* encoded);
template <class Scalar>
void decode_ternary_block(const uint8_t* encoded, int64_t count, Scalar* values);
// Whether these can be bytes of such a block.
bool is_ternary_block(const uint8_t* encoded, int64_t count);

}  // namespace leeway
