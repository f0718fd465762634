#include "model/saved_bytes.h"

#include <algorithm>

namespace leeway {
namespace {

constexpr double kIdBytes = 8;

double tokens_of(const MicrobatchSize& size) { return static_cast<double>(size.tokens); }
double number_bytes(const MicrobatchSize& size) { return static_cast<double>(size.number_bytes); }

// Statistics and losses are kept in fp32 where the compute type is narrower.
double wide_bytes(const MicrobatchSize& size) { return std::max(4.0, number_bytes(size)); }

// Per token: mean and 1/deviation for LayerNorm, only the latter for RMSNorm.
double norm_numbers(const ModelShape& shape) {
  return shape.architecture == Architecture::kGpt2 ? 2 : 1;
}

double block_bytes(const ModelShape& shape, const MicrobatchSize& size) {
  // BlockSaved: the inputs of two norms and of three products, all as wide as the model (the
  // attention's output is referenced twice but stored once), then qkv, up and hidden.
  const auto numbers =
      static_cast<double>(5 * shape.width + shape.qkv_rows() + shape.up_rows() + shape.hidden);
  const double statistics = static_cast<double>(shape.heads) + 2 * norm_numbers(shape);
  return tokens_of(size) * (numbers * number_bytes(size) + statistics * wide_bytes(size));
}

}  // namespace

double input_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  const double activation = static_cast<double>(shape.width) * number_bytes(size);
  return tokens_of(size) * (slice.embeds ? kIdBytes : activation);
}

double saved_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  double bytes = static_cast<double>(slice.layers) * block_bytes(shape, size);
  if (slice.embeds) bytes += tokens_of(size) * kIdBytes;  // elsewhere it is the first block's input
  if (slice.heads) {
    const double numbers = 2 * static_cast<double>(shape.width) * number_bytes(size);
    bytes += tokens_of(size) * (numbers + norm_numbers(shape) * wide_bytes(size));
  }
  return bytes;
}

double loss_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  if (!slice.heads) return 0;
  const double probabilities = static_cast<double>(shape.vocabulary) * wide_bytes(size);
  return tokens_of(size) * (probabilities + kIdBytes);
}

double passing_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size) {
  const int64_t block = 6 * shape.width + 2 * shape.qkv_rows() + shape.up_rows() + shape.hidden;
  const int64_t head = slice.heads ? shape.vocabulary : 0;
  return tokens_of(size) * number_bytes(size) * static_cast<double>(block + head);
}

}  // namespace leeway
