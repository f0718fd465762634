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

at::Tensor round_trip(WireFormat format, const at::Tensor& values) {
  const at::Tensor encoded = encode(format, values, any_key());
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
  const at::Tensor decoded = round_trip(WireFormat::kTernary, values);
  for (int64_t begin = 0; begin < values.numel(); begin += kTernaryBlock) {
    const int64_t end = std::min(begin + kTernaryBlock, values.numel());
    const at::Tensor own = values.slice(0, begin, end).to(at::kDouble);
    const at::Tensor got = decoded.slice(0, begin, end).to(at::kDouble);
    const double threshold = 0.6 * own.square().mean().sqrt().item<double>();
    const at::Tensor sure = (own.abs() - threshold).abs() > 1e-6 * threshold;
    const at::Tensor kept = own.abs() > threshold;
    RC_ASSERT((((got != 0) == kept) | ~sure).all().item<bool>());
    if (!kept.any().item<bool>()) continue;
    RC_ASSERT(((got.sign() == own.sign()) | (got == 0)).all().item<bool>());
    const double size = own.abs().masked_select(got != 0).mean().item<double>();
    const at::Tensor sizes = got.abs().masked_select(got != 0);
    RC_ASSERT(((sizes - size).abs() <= 1e-7 * size).all().item<bool>());
  }
}

RC_GTEST_PROP(Wire, TernaryOfTernaryIsExact, ()) {
  const at::ScalarType type = any_type();
  const at::Tensor once = round_trip(WireFormat::kTernary, any_values(type));
  RC_ASSERT(at::equal(round_trip(WireFormat::kTernary, once), once));
}

}  // namespace
}  // namespace leeway
