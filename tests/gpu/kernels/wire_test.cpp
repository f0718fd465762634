// The wire formats, and the steps of a common model that are encoded in one pass, on a GPU against
// their twins on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/wire.h"
#include "twins.h"

namespace leeway {
namespace {

using WireKernels = GpuTest;

std::vector<at::Tensor> numbers_to_encode(int64_t count) {
  std::vector<at::Tensor> made = {
      at::randn({count}),         at::zeros({count}),
      at::full({count}, 1e-44F),  at::full({count}, 3e38F),
      at::randn({count}) * 1e-38, at::randn({count}) * at::pow(10.0, at::randn({count}) * 5)};
  if (count == 0) return made;
  for (const float wrong : {std::nanf(""), kInfinity, -kInfinity}) {
    made.push_back(at::randn({count}));
    made.back()[count / 2] = wrong;
  }
  return made;
}

void expect_same_code(WireFormat format, const at::Tensor& values, int64_t skipped) {
  const at::Tensor code = encode(format, values, kKey);
  const at::Tensor their_code = encode(format, on_gpu(values, skipped), kKey);
  const bool finite = values.isfinite().all().item<bool>();
  // A NaN of bf16 has other bits on every machine.
  if (finite || format != WireFormat::kBf16) {
    EXPECT_TRUE(same_bits(code, their_code));
  }
  EXPECT_TRUE(is_encoding(format, their_code, values.numel(), at::kFloat));
  const at::Tensor decoded = decode(format, code, values.numel(), at::kFloat);
  const at::Tensor their_decoded =
      decode(format, on_gpu(code, skipped), values.numel(), at::kFloat);
  if (finite || format == WireFormat::kTernary) {
    EXPECT_TRUE(same_bits(decoded, their_decoded));
  } else {
    EXPECT_TRUE(at::allclose(decoded, their_decoded.cpu(), 0, 0, /*equal_nan=*/true));
  }
}

TEST_F(WireKernels, WireFormatsWriteTheSameBytesAndReadTheSameNumbers) {
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16, WireFormat::kInt8,
                                  WireFormat::kInt8Stochastic, WireFormat::kTernary}) {
    for (const int64_t count :
         {0, 1, 4, 5, 6, 255, 256, 257, 511, 512, 513, 1101, 4 * 512, 100'003}) {
      for (const int64_t skipped : {0, 1, 3}) {
        SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format) << ", " << count
                                        << " numbers from " << skipped);
        for (const at::Tensor& values : numbers_to_encode(count)) {
          expect_same_code(format, values, skipped);
        }
      }
    }
    expect_same_code(format, at::randn({many()}), 0);
  }
}

TEST_F(WireKernels, ATernaryBlockThatNobodyCouldHaveEncodedIsZeros) {
  const at::Tensor good = encode(WireFormat::kTernary, at::randn({1100}), kKey);
  const at::Tensor decoded = decode(WireFormat::kTernary, good, 1100, at::kFloat);
  const auto zeros_from = [&](const at::Tensor& bad, int64_t first, int64_t last) {
    const at::Tensor theirs = on_gpu(bad);
    EXPECT_FALSE(is_encoding(WireFormat::kTernary, bad, 1100, at::kFloat));
    EXPECT_TRUE(is_encoding(WireFormat::kTernary, theirs, 1100, at::kFloat)) << "nobody looks";
    const at::Tensor expected = decoded.clone();
    expected.slice(0, first, last).zero_();
    EXPECT_TRUE(same_bits(expected, decode(WireFormat::kTernary, theirs, 1100, at::kFloat)));
  };
  for (const auto& [byte, first, last] :
       {std::array<int64_t, 3>{4, 0, 512}, {106, 0, 512}, {111, 512, 1024}, {218, 1024, 1100}}) {
    at::Tensor bad = good.clone();
    bad[byte] = 243;
    zeros_from(bad, first, last);
  }
  for (const int64_t block : {0, 1, 2}) {
    for (const int64_t high : {0x7f, 0xff, 0xbf}) {  // inf or NaN, both signs, and a negative scale
      at::Tensor bad = good.clone();
      bad[block * 107 + 3] = high;
      bad[block * 107 + 2] = 0x80;
      zeros_from(bad, block * 512, std::min<int64_t>(block * 512 + 512, 1100));
    }
  }
}

TEST_F(WireKernels, ContributionsAreTheSameInOnePass) {
  for (const WireFormat format : {WireFormat::kTernary, WireFormat::kInt8, WireFormat::kF32}) {
    for_subsets([&](const Subset& subset, int64_t skipped) {
      const LowbitOptions options = {.wire = format};
      StepsCase ours = random_steps(options, subset);
      StepsCase theirs = case_on_gpu(ours, skipped);
      for (int time = 0; time < 2; ++time) {
        const at::Tensor code =
            contribute_steps(options, subset, kKey, ours.arguments.weights, ours.buffers);
        const at::Tensor their_code =
            contribute_steps(options, subset, kKey, theirs.arguments.weights, theirs.buffers);
        EXPECT_TRUE(same_bits(code, their_code));
        expect_same_buffers(ours.buffers, theirs.buffers);
      }
    });
  }
}

// With smoothing the CPU may round a product and a sum at once; the kernel does not.
TEST_F(WireKernels, ContributionsWithSmoothingAreThoseOfPlainArithmetic) {
  for (const int64_t parameters : {1, 511, 513, 70'001}) {
    const LowbitOptions options = {.smoothing = 0.95};
    StepsCase ours = random_steps(options, whole(parameters));
    StepsCase theirs = case_on_gpu(ours, 0);
    const at::Tensor code = contribute_steps(options, whole(parameters), kKey,
                                             theirs.arguments.weights, theirs.buffers);
    const at::Tensor waiting = ours.buffers.pending * options.smoothing;
    const at::Tensor beyond = ours.arguments.weights - ours.buffers.common;
    const at::Tensor sum = beyond + waiting;
    const at::Tensor expected = encode(options.wire, sum - ours.buffers.flight, kKey);
    EXPECT_TRUE(same_bits(expected, code));
    const at::Tensor said = decode(options.wire, expected, parameters, at::kFloat);
    EXPECT_TRUE(same_bits(ours.buffers.flight + said, theirs.buffers.flight));
  }
}

TEST_F(WireKernels, AnswersAreTheSame) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const int64_t members : {2, 3, 5}) {
      const LowbitOptions options;
      StepsCase ours = random_steps(options, subset);
      StepsCase theirs = case_on_gpu(ours, skipped);
      std::vector<at::Tensor> parts;
      for (int part = 0; part < 3; ++part) parts.push_back(at::randn({subset.count()}) * 0.01);
      if (members == 5 && subset.count() > 0) parts[1][0] = kInfinity;
      if (members == 3 && subset.count() > 0) {
        for (at::Tensor& part : parts) part[0] = kInfinity;
      }
      std::vector<at::Tensor> their_parts;
      for (const at::Tensor& part : parts) their_parts.push_back(on_gpu(part, skipped));
      const ReducedSteps answer = reduce_steps(options, subset, parts, members, kKey, ours.buffers);
      const ReducedSteps their_answer =
          reduce_steps(options, subset, their_parts, members, kKey, theirs.buffers);
      EXPECT_TRUE(same_bits(answer.answer, their_answer.answer));
      expect_same_sums(answer.sums, their_answer.sums);
      expect_same_buffers(ours.buffers, theirs.buffers);
    }
  });
}

}  // namespace
}  // namespace leeway
