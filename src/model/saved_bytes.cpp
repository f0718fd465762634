#include "model/saved_bytes.h"

#include <algorithm>
#include <cmath>

#include "kernels/loss.h"
#include "model/views.h"

namespace leeway {
namespace {

constexpr double kIdBytes = 8;

double tokens_of(const MicrobatchSize& size) { return static_cast<double>(size.tokens); }
double number_bytes(const MicrobatchSize& size) { return static_cast<double>(size.number_bytes); }
bool on_gpu(const MicrobatchSize& size) { return !size.device.is_cpu(); }

// Where our kernels for rows of bf16 take over (kernels/column_form.h).
bool has_own_kernels(const MicrobatchSize& size, int64_t columns) {
  return on_gpu(size) && size.number_bytes == 2 && columns % 8 == 0;
}

// What a GPU's backward makes again is not saved, but held beside the gradients.
int64_t repeated_numbers(const ModelShape& shape, const MicrobatchSize& size) {
  return has_own_kernels(size, shape.hidden) ? shape.hidden : 0;
}

// Statistics and losses are kept in fp32 where the compute type is narrower.
double wide_bytes(const MicrobatchSize& size) { return std::max(4.0, number_bytes(size)); }

// Per token: mean and 1/deviation for LayerNorm, only the latter for RMSNorm.
double norm_numbers(const ModelShape& shape) {
  return shape.architecture == Architecture::kGpt2 ? 2 : 1;
}

// All heads of one of q, k, v as a GPU's attention wants them: see model/attention.cpp.
int64_t padded_width(const ModelShape& shape, const MicrobatchSize& size) {
  const int64_t head = on_gpu(size) ? (shape.head_size() + 7) / 8 * 8 : shape.head_size();
  return shape.heads * head;
}

// BlockSaved: numbers of the compute type per token.
int64_t block_numbers(const ModelShape& shape, const MicrobatchSize& size) {
  const int64_t norms = 4 * shape.width;  // inputs and outputs of two norms
  // The output of attention is referenced twice but stored once, unless heads are padded.
  const int64_t padded = padded_width(shape, size);
  const int64_t attention = shape.width + (padded == shape.width ? 0 : padded);
  return norms + shape.qkv_rows() + attention + shape.up_rows() + shape.hidden -
         repeated_numbers(shape, size);
}

double block_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  const auto numbers = static_cast<double>(block_numbers(shape, size));
  const double statistics = static_cast<double>(shape.heads) + 2 * norm_numbers(shape);
  return tokens_of(size) * (numbers * number_bytes(size) + statistics * wide_bytes(size));
}

// A repeatable backward of flash attention adds up in fp32, and keeps as many sums as it takes to
// give every multiprocessor some heads. This many are on an H100 or H200; others have fewer.
double flash_sums_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  constexpr double kMultiprocessors = 132;
  if (!on_gpu(size) || number_bytes(size) > 2) return 0;
  const double sequences = tokens_of(size) / static_cast<double>(shape.context);
  const double sums = std::ceil(kMultiprocessors / (sequences * static_cast<double>(shape.heads)));
  return tokens_of(size) * sums * 4 * static_cast<double>(padded_width(shape, size));
}

// Inside the backward of attention: what its kernel takes in addition to the saved tensors, then
// the parts of its result and the result.
double attention_backward_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  const int64_t width = padded_width(shape, size);
  const bool grouped = shape.kv_heads < shape.heads;
  const int64_t copies = width != shape.width ? 4 * width : grouped ? 2 * width : 0;
  const double kernel =
      tokens_of(size) * number_bytes(size) * static_cast<double>(copies + 3 * width) +
      flash_sums_bytes(shape, size);
  const int64_t sums = grouped ? 2 * shape.kv_heads * shape.head_size() : 0;
  const double joined = tokens_of(size) * number_bytes(size) *
                        static_cast<double>(copies + 3 * width + sums + shape.qkv_rows());
  return std::max(kernel, joined);
}

// block_backward() holds the gradients of all that it has passed until it returns.
double block_backward_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  const double number = tokens_of(size) * number_bytes(size);
  const double before = number * static_cast<double>(4 * shape.width + shape.up_rows() +
                                                     shape.hidden + repeated_numbers(shape, size));
  const double after = number * static_cast<double>(shape.qkv_rows() + 2 * shape.width);
  return before + std::max(attention_backward_bytes(shape, size), after);
}

// The last part of a backward of the first stage. Our kernels add to the gradients; that for a GPU
// sorts the ids, and keeps two sums for 32 tokens. ATen's on a GPU makes a table of its own, and
// sums of ten tokens each on the way.
double embedding_backward_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  constexpr double kPartialTokens = 10;
  constexpr double kSortedBytes = 32;  // ids and their order, before and after
  const auto width = static_cast<double>(shape.width);
  double bytes = tokens_of(size) * width * number_bytes(size);
  if (has_own_kernels(size, shape.width)) {
    return bytes + tokens_of(size) * (kSortedBytes + 2.0 / 32 * 4 * width);
  }
  if (size.number_bytes < 4) bytes += tokens_of(size) * width * 4;
  if (!on_gpu(size)) return bytes;
  const double partial = tokens_of(size) / kPartialTokens + static_cast<double>(shape.vocabulary);
  return bytes +
         4 * width * (static_cast<double>(shape.vocabulary) + std::min(partial, tokens_of(size)));
}

}  // namespace

double input_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  const double activation = static_cast<double>(shape.width) * number_bytes(size);
  return tokens_of(size) * (slice.embeds ? kIdBytes : activation);
}

double saved_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  double bytes = static_cast<double>(slice.layers) * block_bytes(shape, size);
  if (slice.embeds) bytes += tokens_of(size) * kIdBytes;  // elsewhere it is the first block's input
  if (slice.heads) {                                      // the last norm
    const double numbers = static_cast<double>(shape.width) * number_bytes(size);
    bytes += tokens_of(size) * (numbers + norm_numbers(shape) * wide_bytes(size));
  }
  return bytes;
}

double head_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  if (!slice.heads) return 0;
  const double taken = static_cast<double>(shape.width) * number_bytes(size);
  return tokens_of(size) * (taken + kIdBytes);
}

double loss_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  if (!slice.heads) return 0;
  const int64_t columns = padded_vocabulary(shape, size.device);
  const int64_t rows = loss_rows_at_once(size.tokens, columns, size.number_bytes, size.device);
  const auto numbers = static_cast<double>(rows) * static_cast<double>(columns);
  // On a GPU the gradient takes the place of the logits. The CPU makes probabilities beside them,
  // and widens narrow ones before.
  if (on_gpu(size)) return numbers * number_bytes(size);
  const double widened = number_bytes(size) < wide_bytes(size) ? wide_bytes(size) : 0;
  return numbers * (number_bytes(size) + widened + wide_bytes(size));
}

double passing_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  double most = block_backward_bytes(shape, size);
  if (slice.heads) {  // the gradient of what the head takes grows meanwhile
    const double taken = tokens_of(size) * static_cast<double>(shape.width) * number_bytes(size);
    most = std::max(most, loss_bytes(shape, slice, size) + taken);
  }
  if (slice.embeds) {
    const double freed = static_cast<double>(slice.layers) * block_bytes(shape, size);
    most = std::max(most, embedding_backward_bytes(shape, size) - freed);
  }
  return most;
}

}  // namespace leeway
