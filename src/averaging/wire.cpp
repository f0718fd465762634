#include "averaging/wire.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/wire_loops.h"

namespace leeway {
namespace {

static_assert(std::endian::native == std::endian::little, "scales travel as little endian");

constexpr int64_t kBlocksPerThread = 128;  // minimum: with fewer, a thread does not pay off
constexpr int64_t kScaleBytes = 4;

struct BlockForm {
  int64_t numbers = 0;
  int64_t bytes = 0;  // in a whole block
};

bool is_int8(WireFormat format) {
  return format == WireFormat::kInt8 || format == WireFormat::kInt8Stochastic;
}

bool has_blocks(WireFormat format) {
  return format != WireFormat::kF32 && format != WireFormat::kBf16;
}

int64_t code_bytes(WireFormat format, int64_t count) {
  return is_int8(format) ? count : ternary_codes(count);
}

int64_t block_numbers(WireFormat format) { return is_int8(format) ? kInt8Block : kTernaryBlock; }

BlockForm form_of(WireFormat format) {
  const int64_t numbers = block_numbers(format);
  return {.numbers = numbers, .bytes = kScaleBytes + code_bytes(format, numbers)};
}

// Calls body(block, first value, count of values, first byte) for each block, on several threads.
template <class Body>
void for_wire_blocks(WireFormat format, int64_t count, const Body& body) {
  const BlockForm form = form_of(format);
  const int64_t blocks = (count + form.numbers - 1) / form.numbers;
  at::parallel_for(0, blocks, kBlocksPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * form.numbers;
      body(block, first, std::min(form.numbers, count - first), block * form.bytes);
    }
  });
}

template <class Scalar>
void encode_blocks(WireFormat format, const at::Tensor& values, const RandomKey& key,
                   uint8_t* encoded) {
  const auto* const numbers = values.const_data_ptr<Scalar>();
  const auto encode_one = [&](int64_t block, int64_t first, int64_t count, int64_t byte) {
    if (format == WireFormat::kTernary) {
      encode_ternary_block(numbers + first, count, encoded + byte);
    } else if (format == WireFormat::kInt8) {
      encode_int8_block(numbers + first, count, encoded + byte);
    } else {
      const uint64_t random = random_bits(key, static_cast<uint64_t>(block));
      encode_int8_stochastic_block(numbers + first, count, random, encoded + byte);
    }
  };
  for_wire_blocks(format, values.numel(), encode_one);
}

template <class Scalar>
void decode_blocks(WireFormat format, const uint8_t* encoded, const at::Tensor& values) {
  auto* const numbers = values.mutable_data_ptr<Scalar>();
  const auto decode_one = [&](int64_t, int64_t first, int64_t count, int64_t byte) {
    if (format == WireFormat::kTernary) {
      decode_ternary_block(encoded + byte, count, numbers + first);
    } else {
      decode_int8_block(encoded + byte, count, numbers + first);
    }
  };
  for_wire_blocks(format, values.numel(), decode_one);
}

void check_type(at::ScalarType type) {
  LEEWAY_CHECK(type == at::kFloat || type == at::kDouble, "values are fp32 or fp64");
}

}  // namespace

at::Tensor encode(WireFormat format, const at::Tensor& values, const RandomKey& key) {
  check_type(values.scalar_type());
  if (format == WireFormat::kF32) return values.contiguous();
  if (format == WireFormat::kBf16) return values.contiguous().to(at::kBFloat16);
  // Blocks with scales are for networks, and that data passes through the CPU anyway: a second
  // implementation on the device is not worth it.
  const at::Tensor numbers = values.cpu().contiguous();
  const int64_t bytes = encoded_bytes(format, numbers.numel(), numbers.scalar_type());
  const at::Tensor encoded = at::empty({bytes}, at::kByte);
  if (numbers.scalar_type() == at::kDouble) {
    encode_blocks<double>(format, numbers, key, encoded.mutable_data_ptr<uint8_t>());
  } else {
    encode_blocks<float>(format, numbers, key, encoded.mutable_data_ptr<uint8_t>());
  }
  return encoded.to(values.device());
}

at::Tensor decode(WireFormat format, const at::Tensor& encoded, int64_t count,
                  at::ScalarType type) {
  check_type(type);
  LEEWAY_CHECK(encoded.numel() * encoded.element_size() == encoded_bytes(format, count, type),
               "the caller checked is_encoding()");
  if (!has_blocks(format)) return encoded.to(type);
  const at::Tensor bytes = encoded.cpu().contiguous();  // as in encode()
  const at::Tensor values = at::empty({count}, at::TensorOptions().dtype(type));
  if (type == at::kDouble) {
    decode_blocks<double>(format, bytes.const_data_ptr<uint8_t>(), values);
  } else {
    decode_blocks<float>(format, bytes.const_data_ptr<uint8_t>(), values);
  }
  return values.to(encoded.device());
}

int64_t encoded_bytes(WireFormat format, int64_t count, at::ScalarType type) {
  check_type(type);
  if (format == WireFormat::kF32) return count * (type == at::kDouble ? 8 : 4);
  if (format == WireFormat::kBf16) return count * 2;
  const BlockForm form = form_of(format);
  const int64_t rest = count % form.numbers;
  const int64_t whole = count / form.numbers * form.bytes;
  return rest == 0 ? whole : whole + kScaleBytes + code_bytes(format, rest);
}

bool is_encoding(WireFormat format, const at::Tensor& encoded, int64_t count, at::ScalarType type) {
  check_type(type);
  if (!encoded.defined() || encoded.dim() != 1 || !encoded.is_contiguous()) return false;
  if (format == WireFormat::kF32) return encoded.scalar_type() == type && encoded.numel() == count;
  if (format == WireFormat::kBf16) {
    return encoded.scalar_type() == at::kBFloat16 && encoded.numel() == count;
  }
  if (encoded.scalar_type() != at::kByte) return false;
  if (encoded.numel() != encoded_bytes(format, count, type)) return false;
  if (format != WireFormat::kTernary) return true;
  const at::Tensor host = encoded.cpu();
  const auto* const bytes = host.const_data_ptr<uint8_t>();
  const BlockForm form = form_of(format);
  for (int64_t block = 0; block * form.numbers < count; ++block) {
    const int64_t numbers = std::min(form.numbers, count - block * form.numbers);
    if (!is_ternary_block(bytes + block * form.bytes, numbers)) return false;
  }
  return true;
}

}  // namespace leeway
