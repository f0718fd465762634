#include "averaging/wire.h"

#include "base/check.h"

namespace leeway {
namespace {

void check_type(at::ScalarType type) {
  LEEWAY_CHECK(type == at::kFloat || type == at::kDouble, "values are fp32 or fp64");
}

}  // namespace

at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key) {
  check_type(values.scalar_type());
  if (format == WireFormat::kF32) return values.contiguous();
  if (format == WireFormat::kBf16) return values.contiguous().to(at::kBFloat16);
  return encode_blocks(format, values, key);
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

}  // namespace leeway
