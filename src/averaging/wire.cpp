#include "averaging/wire.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/ternary_packing.h"

namespace leeway {
namespace {

// About .8 of the largest of 512 numbers with a normal distribution, which is always kept: a larger
// threshold keeps no fewer.
constexpr double kThresholdMost = 2.51;

void check_type(at::ScalarType type) {
  LEEWAY_CHECK(type == at::kFloat || type == at::kDouble, "values are fp32 or fp64");
}

std::span<const uint8_t> bytes_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<uint8_t>(), static_cast<size_t>(tensor.numel())};
}

// Undefined: they are not packed blocks.
at::Tensor unpack_here(const at::Tensor& packed, int64_t count) {
  at::Tensor blocks = at::empty({blocks_bytes(WireFormat::kTernary, count)}, packed.options());
  auto* const begin = blocks.mutable_data_ptr<uint8_t>();
  const bool sound =
      unpack_ternary(bytes_of(packed), count, {begin, static_cast<size_t>(blocks.numel())});
  return sound ? blocks : at::Tensor();
}

}  // namespace

at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key,
                  double threshold) {
  check_type(values.scalar_type());
  if (format == WireFormat::kF32) return values.contiguous();
  if (format == WireFormat::kBf16) return values.contiguous().to(at::kBFloat16);
  return encode_blocks(format, values, key, threshold);
}

at::Tensor decode(WireFormat format, const at::Tensor& encoded, int64_t count,
                  at::ScalarType type) {
  check_type(type);
  LEEWAY_CHECK(encoded.numel() * encoded.element_size() == encoded_bytes(format, count, type),
               "the caller checked is_encoding()");
  if (!has_blocks(format)) return encoded.to(type);
  return decode_blocks(format, encoded, count, type);
}

int64_t encoded_bytes(WireFormat format, int64_t count, at::ScalarType type) {
  check_type(type);
  if (format == WireFormat::kF32) return count * (type == at::kDouble ? 8 : 4);
  if (format == WireFormat::kBf16) return count * 2;
  return blocks_bytes(format, count);
}

bool is_encoding(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type) {
  check_type(type);
  if (!encoded.defined() || encoded.dim() != 1 || !encoded.is_contiguous()) return false;
  if (format == WireFormat::kF32) return encoded.scalar_type() == type && encoded.numel() == count;
  if (format == WireFormat::kBf16) {
    return encoded.scalar_type() == at::kBFloat16 && encoded.numel() == count;
  }
  return is_code(format, encoded, count) && are_blocks(format, encoded, count);
}

at::Tensor pack(WireFormat format, const at::Tensor& encoded, int64_t count) {
  if (format != WireFormat::kTernary || !encoded.is_cpu()) return encoded;
  // It is exact and not a code, or nobody has encoded it: one on a GPU may come from the network.
  if (!is_code(format, encoded, count) || !are_blocks(format, encoded, count)) return encoded;
  const std::vector<uint8_t> packed = pack_ternary(bytes_of(encoded), count);
  at::Tensor bytes = at::empty({std::ssize(packed)}, encoded.options());
  std::ranges::copy(packed, bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

at::Tensor unpack(WireFormat format, const at::Tensor& packed, int64_t count) {
  const bool is_whole = packed.scalar_type() != at::kByte || is_code(format, packed, count);
  if (format != WireFormat::kTernary || is_whole) return packed;
  at::Tensor blocks = unpack_here(packed, count);
  LEEWAY_CHECK(blocks.defined(), "the caller checked is_packed()");
  return blocks;
}

bool is_packed(WireFormat format, const at::Tensor& packed, int64_t count, at::ScalarType type) {
  if (format != WireFormat::kTernary || !packed.defined() || packed.scalar_type() != at::kByte ||
      packed.dim() != 1 || !packed.is_contiguous() ||
      packed.numel() >= blocks_bytes(format, count) || !packed.is_cpu()) {
    return is_encoding(format, packed, count, type);
  }
  const at::Tensor blocks = unpack_here(packed, count);
  return blocks.defined() && are_blocks(format, blocks, count);
}

int64_t packed_bytes(WireFormat format, double threshold, int64_t count, at::ScalarType type) {
  if (format != WireFormat::kTernary) return encoded_bytes(format, count, type);
  const double kept_share = std::erfc(std::min(threshold, kThresholdMost) / std::sqrt(2.0));
  return std::llround(packed_ternary_bytes(count, kept_share));
}

}  // namespace leeway
