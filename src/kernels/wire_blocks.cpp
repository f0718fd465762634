#include "kernels/wire_blocks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/cuda_glue.h"
#include "kernels/means.h"
#include "kernels/wire_loops.h"
#if LEEWAY_CUDA
#include "kernels/wire_cuda.h"
#endif

namespace leeway {
namespace {

static_assert(std::endian::native == std::endian::little, "scales travel as little endian");

constexpr int64_t kWireBlocksPerThread = 128;  // minimum: with fewer, a thread does not pay off
constexpr int64_t kScaleBytes = 4;

struct BlockForm {
  int64_t numbers = 0;
  int64_t bytes = 0;  // in a whole block
};

bool is_int8(WireFormat format) {
  return format == WireFormat::kInt8 || format == WireFormat::kInt8Stochastic;
}

int64_t code_bytes(WireFormat format, int64_t count) {
  if (format == WireFormat::kInt4) return int4_codes(count);
  return is_int8(format) ? count : ternary_codes(count);
}

int64_t block_numbers(WireFormat format) {
  if (format == WireFormat::kInt4) return kInt4Block;
  return is_int8(format) ? kInt8Block : kTernaryBlock;
}

BlockForm form_of(WireFormat format) {
  const int64_t numbers = block_numbers(format);
  return {.numbers = numbers, .bytes = kScaleBytes + code_bytes(format, numbers)};
}

// Calls body(block, first value, count of values, first byte) for each block, on several threads.
template <class Body>
void for_wire_blocks(WireFormat format, int64_t count, const Body& body) {
  const BlockForm form = form_of(format);
  const int64_t blocks = (count + form.numbers - 1) / form.numbers;
  at::parallel_for(0, blocks, kWireBlocksPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * form.numbers;
      body(block, first, std::min(form.numbers, count - first), block * form.bytes);
    }
  });
}

template <class Scalar>
void encode_cpu(WireFormat format, const at::Tensor& values, const RandomKey& key, double threshold,
                uint8_t* encoded) {
  const auto* const numbers = values.const_data_ptr<Scalar>();
  const auto encode_one = [&](int64_t block, int64_t first, int64_t count, int64_t byte) {
    if (format == WireFormat::kTernary) {
      encode_ternary_block(numbers + first, count, threshold, encoded + byte);
    } else if (format == WireFormat::kInt8) {
      encode_int8_block(numbers + first, count, encoded + byte);
    } else if (format == WireFormat::kInt4) {
      encode_int4_block(numbers + first, count, encoded + byte);
    } else {
      const uint64_t random = random_bits(key, static_cast<uint64_t>(block));
      encode_int8_stochastic_block(numbers + first, count, random, encoded + byte);
    }
  };
  for_wire_blocks(format, values.numel(), encode_one);
}

template <class Scalar>
void decode_cpu(WireFormat format, const uint8_t* encoded, const at::Tensor& values) {
  auto* const numbers = values.mutable_data_ptr<Scalar>();
  const auto decode_one = [&](int64_t, int64_t first, int64_t count, int64_t byte) {
    if (format == WireFormat::kTernary) {
      decode_ternary_block(encoded + byte, count, numbers + first);
    } else if (format == WireFormat::kInt4) {
      decode_int4_block(encoded + byte, count, numbers + first);
    } else {
      decode_int8_block(encoded + byte, count, numbers + first);
    }
  };
  for_wire_blocks(format, values.numel(), decode_one);
}

#if LEEWAY_CUDA
void encode_on_device(WireFormat format, const at::Tensor& values, const RandomKey& key,
                      double threshold, uint8_t* encoded) {
  LEEWAY_CHECK(values.scalar_type() == at::kFloat, "numbers on a GPU are fp32");
  const CudaScope scope(values);
  const auto* const from = scope.data<const float>(values);
  const int64_t count = values.numel();
  if (format == WireFormat::kTernary) {
    return encode_ternary_cuda(from, count, threshold, encoded, scope.stream());
  }
  if (format == WireFormat::kInt8) return encode_int8_cuda(from, count, encoded, scope.stream());
  if (format == WireFormat::kInt4) return encode_int4_cuda(from, count, encoded, scope.stream());
  encode_int8_stochastic_cuda(from, count, fold(key), encoded, scope.stream());
}

void decode_on_device(WireFormat format, const uint8_t* encoded, const at::Tensor& values) {
  LEEWAY_CHECK(values.scalar_type() == at::kFloat, "numbers on a GPU are fp32");
  const CudaScope scope(values);
  auto* const to = scope.data<float>(values);
  if (format == WireFormat::kTernary) {
    return decode_ternary_cuda(encoded, values.numel(), to, scope.stream());
  }
  if (format == WireFormat::kInt4) {
    return decode_int4_cuda(encoded, values.numel(), to, scope.stream());
  }
  decode_int8_cuda(encoded, values.numel(), to, scope.stream());
}

at::Tensor new_code(WireFormat format, const Subset& subset, const at::Tensor& flat) {
  return at::empty({blocks_bytes(format, subset.count())}, flat.options().dtype(at::kByte));
}

// Into a kernel's list of codes of a subset's values. False: they are too many, or not codes.
template <size_t kListed>
bool list_codes(const CudaScope& scope, const std::vector<at::Tensor>& codes, int64_t count,
                const uint8_t* (&listed)[kListed]) {
  const bool are_codes = std::ranges::all_of(
      codes, [&](const at::Tensor& code) { return is_code(WireFormat::kTernary, code, count); });
  if (!are_codes || codes.size() > kListed) return false;
  for (size_t i = 0; i < codes.size(); ++i) listed[i] = scope.data<const uint8_t>(codes[i]);
  return true;
}

int64_t begin_of(const Subset& subset) { return subset.runs == 0 ? 0 : subset.begin(0); }
#else
void encode_on_device(WireFormat, const at::Tensor&, const RandomKey&, double, uint8_t*) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
void decode_on_device(WireFormat, const uint8_t*, const at::Tensor&) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
#endif

}  // namespace

bool has_blocks(WireFormat format) {
  return format != WireFormat::kF32 && format != WireFormat::kBf16;
}

int64_t blocks_bytes(WireFormat format, int64_t count) {
  const BlockForm form = form_of(format);
  const int64_t rest = count % form.numbers;
  const int64_t whole = count / form.numbers * form.bytes;
  return rest == 0 ? whole : whole + kScaleBytes + code_bytes(format, rest);
}

at::Tensor encode_blocks(WireFormat format, const at::Tensor& values, const RandomKey& key,
                         double threshold) {
  const at::Tensor numbers = values.contiguous();
  at::Tensor encoded =
      at::empty({blocks_bytes(format, numbers.numel())}, numbers.options().dtype(at::kByte));
  auto* const bytes = encoded.mutable_data_ptr<uint8_t>();
  if (is_on_gpu(numbers)) {
    encode_on_device(format, numbers, key, threshold, bytes);
  } else if (numbers.scalar_type() == at::kDouble) {
    encode_cpu<double>(format, numbers, key, threshold, bytes);
  } else {
    encode_cpu<float>(format, numbers, key, threshold, bytes);
  }
  return encoded;
}

at::Tensor decode_blocks(WireFormat format, const at::Tensor& encoded, int64_t count,
                         at::ScalarType type) {
  const at::Tensor packed = encoded.contiguous();
  at::Tensor values = at::empty({count}, packed.options().dtype(type));
  const auto* const bytes = packed.const_data_ptr<uint8_t>();
  if (is_on_gpu(packed)) {
    decode_on_device(format, bytes, values);
  } else if (type == at::kDouble) {
    decode_cpu<double>(format, bytes, values);
  } else {
    decode_cpu<float>(format, bytes, values);
  }
  return values;
}

bool is_code(WireFormat format, const at::Tensor& encoded, int64_t count) {
  return encoded.scalar_type() == at::kByte && encoded.is_contiguous() &&
         encoded.numel() == blocks_bytes(format, count);
}

bool are_blocks(WireFormat format, const at::Tensor& encoded, int64_t count) {
  if (format != WireFormat::kTernary || is_on_gpu(encoded)) return true;
  const auto* const bytes = encoded.const_data_ptr<uint8_t>();
  const BlockForm form = form_of(format);
  for (int64_t block = 0; block * form.numbers < count; ++block) {
    const int64_t numbers = std::min(form.numbers, count - block * form.numbers);
    if (!is_ternary_block(bytes + block * form.bytes, numbers)) return false;
  }
  return true;
}

bool is_coded_in_one_pass(WireFormat format, const Subset& subset, const at::Tensor& flat) {
  return format == WireFormat::kTernary && subset.is_stretch() && is_on_gpu(flat) &&
         flat.scalar_type() == at::kFloat;
}

#if LEEWAY_CUDA
at::Tensor contribute_in_one_pass(WireFormat format, const Subset& subset,
                                  const UnsentSteps& unsent) {
  if (!is_coded_in_one_pass(format, subset, unsent.weights)) return {};
  const CudaScope scope(unsent.weights);
  const int64_t begin = begin_of(subset);
  const auto start = [&](const at::Tensor& flat) {
    return flat.defined() ? scope.data<float>(flat) + begin : nullptr;
  };
  static_assert(StepsToSend::kListed == kCodesInOnePass);
  StepsToSend steps = {.count = subset.count(),
                       .weights = start(unsent.weights),
                       .common = start(unsent.common),
                       .pending = start(unsent.pending),
                       .smoothing = static_cast<float>(unsent.smoothing),
                       .flight = start(unsent.flight),
                       .threshold = unsent.threshold,
                       .codes = std::ssize(unsent.under_way)};
  if (!list_codes(scope, unsent.under_way, steps.count, steps.listed)) return {};
  const at::Tensor encoded = new_code(format, subset, unsent.weights);
  contribute_ternary_cuda(steps, encoded.mutable_data_ptr<uint8_t>(), scope.stream());
  return encoded;
}

CodedAnswer reduce_in_one_pass(WireFormat format, const Subset& subset, const OwedSteps& owed) {
  LEEWAY_CHECK(!owed.parts.empty(), "an average needs a contributor");
  if (!is_coded_in_one_pass(format, subset, owed.residual)) return {};
  const CudaScope scope(owed.residual);
  StepsToAnswer steps = {.count = subset.count(),
                         .parts = std::ssize(owed.parts),
                         .share = static_cast<float>(owed.share),
                         .threshold = owed.threshold,
                         .residual = scope.data<float>(owed.residual) + begin_of(subset)};
  if (!list_codes(scope, owed.parts, steps.count, steps.listed)) return {};
  const auto sums_options = owed.residual.options().dtype(at::kDouble);
  const CodedAnswer answer = {
      .code = new_code(format, subset, owed.residual),
      .sums = at::empty({FiniteMean::kFirstValue + steps.parts}, sums_options)};
  const at::Tensor scratch = at::empty({reduce_scratch(steps.count)}, sums_options);
  steps.scratch = scope.data<double>(scratch);
  steps.sums = scope.data<double>(answer.sums);
  reduce_ternary_cuda(steps, answer.code.mutable_data_ptr<uint8_t>(), scope.stream());
  return answer;
}
#else
at::Tensor contribute_in_one_pass(WireFormat, const Subset&, const UnsentSteps&) { return {}; }
CodedAnswer reduce_in_one_pass(WireFormat, const Subset&, const OwedSteps&) { return {}; }
#endif

}  // namespace leeway
