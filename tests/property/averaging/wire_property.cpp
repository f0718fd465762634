#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "averaging/wire.h"

namespace leeway {
namespace {

RandomKey any_key() {
  return {*rc::gen::arbitrary<uint64_t>(), Stream::kRounding, *rc::gen::arbitrary<uint64_t>()};
}

at::ScalarType any_type() { return *rc::gen::element(at::kFloat, at::kDouble); }

// Magnitudes over many powers of ten, including zeros.
at::Tensor any_values(at::ScalarType type) {
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  const int64_t count = *rc::gen::inRange<int64_t>(1, 2500);
  const double size = std::pow(10.0, *rc::gen::inRange(-20, 20));
  const at::Tensor spread = at::pow(10.0, at::randn({count}, at::kDouble));
  const at::Tensor zeros = at::rand({count}) < *rc::gen::inRange(0, 101) / 100.0;
  return (at::randn({count}, at::kDouble) * spread * size).masked_fill(zeros, 0).to(type);
}

double any_threshold() { return *rc::gen::inRange(0, 400) / 100.0; }

at::Tensor round_trip(WireFormat format, const at::Tensor& values,
                      double threshold = kUsualThreshold) {
  const at::Tensor encoded = encode(format, values, any_key(), threshold);
  RC_ASSERT(is_encoding(format, encoded, values.numel(), values.scalar_type()));
  RC_ASSERT(static_cast<int64_t>(encoded.nbytes()) ==
            encoded_bytes(format, values.numel(), values.scalar_type()));
  const at::Tensor decoded = decode(format, encoded, values.numel(), values.scalar_type());
  RC_ASSERT(decoded.scalar_type() == values.scalar_type());
  return decoded;
}

// The error is at most `steps` steps; a block's largest value is `most` steps.
void check_steps(WireFormat format, int64_t block, double most, double steps) {
  const at::Tensor values = any_values(any_type());
  const at::Tensor error = (round_trip(format, values) - values).abs().to(at::kDouble);
  for (int64_t begin = 0; begin < values.numel(); begin += block) {
    const int64_t end = std::min(begin + block, values.numel());
    const double step = values.slice(0, begin, end).abs().max().item<double>() / most;
    // Adds a little for the rounding of scale, quotient and product to fp32.
    const double bound = step * (steps + most * 4 * 0x1p-24);
    RC_ASSERT(error.slice(0, begin, end).max().item<double>() <= bound);
  }
}

RC_GTEST_PROP(Wire, Int8IsOffByHalfAStepOfItsBlockAtMost, ()) {
  check_steps(WireFormat::kInt8, kInt8Block, 127, 0.5);
}

RC_GTEST_PROP(Wire, StochasticInt8IsOffByAStepOfItsBlockAtMost, ()) {
  check_steps(WireFormat::kInt8Stochastic, kInt8Block, 127, 1);
}

RC_GTEST_PROP(Wire, Int4IsOffByHalfAStepOfItsBlockAtMost, ()) {
  check_steps(WireFormat::kInt4, kInt4Block, 7, 0.5);
}

RC_GTEST_PROP(Wire, Bf16HasItsRelativeError, ()) {
  const at::Tensor values = any_values(any_type());
  const at::Tensor error = (round_trip(WireFormat::kBf16, values) - values).abs();
  // Half a unit in the last of eight bits; fp64 is first rounded to fp32, which adds its own half.
  RC_ASSERT((error <= values.abs() * (0x1p-8 + 0x1p-24)).all().item<bool>());
}

RC_GTEST_PROP(Wire, F32IsExact, ()) {
  const at::Tensor values = any_values(any_type());
  RC_ASSERT(at::equal(round_trip(WireFormat::kF32, values), values));
}

RC_GTEST_PROP(Wire, TernaryKeepsThoseAboveItsThreshold, ()) {
  const at::Tensor values = any_values(any_type());
  const double times_rms = any_threshold();
  const at::Tensor decoded = round_trip(WireFormat::kTernary, values, times_rms);
  for (int64_t begin = 0; begin < values.numel(); begin += kTernaryBlock) {
    const int64_t end = std::min(begin + kTernaryBlock, values.numel());
    const at::Tensor own = values.slice(0, begin, end).to(at::kDouble);
    const at::Tensor got = decoded.slice(0, begin, end).to(at::kDouble);
    const double largest = own.abs().max().item<double>();
    const double usual = times_rms * own.square().mean().sqrt().item<double>();
    const double threshold = std::min(usual, 0.8 * largest);
    const at::Tensor sure = (own.abs() - threshold).abs() > 1e-6 * threshold;
    const at::Tensor kept = (own.abs() >= threshold) & (own != 0);
    RC_ASSERT(largest == 0 || kept.any().item<bool>());
    RC_ASSERT((((got != 0) == kept) | ~sure).all().item<bool>());
    if (!kept.any().item<bool>()) continue;
    RC_ASSERT(((got.sign() == own.sign()) | (got == 0)).all().item<bool>());
    const double size = own.abs().masked_select(got != 0).mean().item<double>();
    const at::Tensor sizes = got.abs().masked_select(got != 0);
    RC_ASSERT(((sizes - size).abs() <= (0x1p-8 + 1e-7) * size).all().item<bool>());
  }
}

RC_GTEST_PROP(Wire, TernaryOfTernaryIsExact, ()) {
  const at::ScalarType type = any_type();
  const double threshold = any_threshold();
  const at::Tensor once = round_trip(WireFormat::kTernary, any_values(type), threshold);
  RC_ASSERT(at::equal(round_trip(WireFormat::kTernary, once, threshold), once));
}

// With error feedback and nothing new, everything is said in the end: whatever is left over shrinks
// by a factor with every message, so no number is silent for ever.
RC_GTEST_PROP(Wire, WhatTernaryLeavesOverShrinks, ()) {
  const double threshold = any_threshold();
  at::Tensor left = any_values(at::kDouble);
  const double begin = left.norm().item<double>();
  for (int message = 0; message < 40; ++message) {
    const double before = left.norm().item<double>();
    if (before < 1e-30) break;  // a scale could not be fp32
    left = left - round_trip(WireFormat::kTernary, left, threshold);
    // One number of a block at least, all within .8 and 1 of the largest, is off by a fifth of
    // itself at most.
    const double least = 0.96 / kTernaryBlock;
    RC_ASSERT(left.norm().item<double>() <= std::sqrt(1 - least) * before * (1 + 1e-6));
  }
  RC_ASSERT(begin == 0 || left.norm().item<double>() < begin);
}

// Blocks that were encoded, and bytes that nobody encoded.
at::Tensor any_blocks(int64_t count) {
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  const double zeros = *rc::gen::inRange(0, 101) / 100.0;
  const at::Tensor values = at::randn({count}).masked_fill(at::rand({count}) < zeros, 0);
  const at::Tensor blocks = encode(WireFormat::kTernary, values, any_key(), any_threshold());
  if (*rc::gen::inRange(0, 4) > 0) return blocks;
  const int64_t most = *rc::gen::element(243, 256);
  return at::randint(most, {blocks.numel()}, at::kInt).to(at::kByte);
}

int64_t any_count() {
  const int64_t groups = *rc::gen::inRange(0, 3);
  return groups * 32 * kTernaryBlock + *rc::gen::inRange<int64_t>(0, 3000);
}

RC_GTEST_PROP(Packing, IsExactAndNeverLonger, ()) {
  const int64_t count = any_count();
  const at::Tensor blocks = any_blocks(count);
  const bool sound = is_encoding(WireFormat::kTernary, blocks, count, at::kFloat);
  const at::Tensor packed = pack(WireFormat::kTernary, blocks, count);
  RC_ASSERT(packed.numel() <= blocks.numel());
  RC_ASSERT(is_packed(WireFormat::kTernary, packed, count, at::kFloat) == sound);
  RC_ASSERT(at::equal(unpack(WireFormat::kTernary, packed, count), blocks));
}

// Whatever the bytes are: they are refused, or they are blocks that somebody could have sent.
RC_GTEST_PROP(Packing, DamageIsRefusedOrHarmless, ()) {
  const int64_t count = any_count();
  at::Tensor packed = pack(WireFormat::kTernary, any_blocks(count), count).clone();
  RC_PRE(packed.numel() > 0);
  auto* const bytes = packed.mutable_data_ptr<uint8_t>();
  const int64_t damaged = *rc::gen::inRange(1, 5);
  for (int64_t at = 0; at < damaged; ++at) {
    const int64_t near = *rc::gen::element<int64_t>(8, packed.numel());  // headers more often
    bytes[*rc::gen::inRange<int64_t>(0, std::min(near, packed.numel()))] =
        *rc::gen::arbitrary<uint8_t>();
  }
  if (*rc::gen::arbitrary<bool>()) {
    packed = packed.slice(0, 0, *rc::gen::inRange<int64_t>(0, packed.numel())).clone();
  }
  if (!is_packed(WireFormat::kTernary, packed, count, at::kFloat)) return;
  const at::Tensor blocks = unpack(WireFormat::kTernary, packed, count);
  RC_ASSERT(is_encoding(WireFormat::kTernary, blocks, count, at::kFloat));
}

// What plans and simulations without arithmetic count.
RC_GTEST_PROP(Packing, IsAsLongAsExpected, ()) {
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  const int64_t count = *rc::gen::inRange<int64_t>(100'000, 200'000);
  const double threshold = *rc::gen::inRange(0, 500) / 100.0;
  const double error = threshold > 0.5 && threshold < 2 ? 0.04 : 0.2;
  const at::Tensor blocks = encode(WireFormat::kTernary, at::randn({count}), any_key(), threshold);
  const auto found = static_cast<double>(pack(WireFormat::kTernary, blocks, count).nbytes());
  const auto expected =
      static_cast<double>(packed_bytes(WireFormat::kTernary, threshold, count, at::kFloat));
  RC_ASSERT(std::abs(found / expected - 1) < error);
}

}  // namespace
}  // namespace leeway
