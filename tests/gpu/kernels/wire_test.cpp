// The wire formats, and the steps of a common model that are encoded in one pass, on a GPU against
// their twins on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/wire.h"
#include "kernels/merges.h"
#include "twins.h"

namespace leeway {
namespace {

using WireKernels = GpuTest;

// Another one with each place.
double threshold_of(int64_t skipped) {
  return skipped == 0 ? kUsualThreshold : 1.6 * static_cast<double>(skipped);
}

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

void expect_same_code(WireFormat format, const at::Tensor& values, int64_t skipped,
                      double threshold = kUsualThreshold) {
  const at::Tensor code = encode(format, values, kKey, threshold);
  const at::Tensor their_code = encode(format, on_gpu(values, skipped), kKey, threshold);
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
  for (const WireFormat format :
       {WireFormat::kF32, WireFormat::kBf16, WireFormat::kInt8, WireFormat::kInt8Stochastic,
        WireFormat::kInt4, WireFormat::kTernary}) {
    for (const int64_t count :
         {0, 1, 4, 5, 6, 255, 256, 257, 511, 512, 513, 1101, 4 * 512, 100'003}) {
      for (const int64_t skipped : {0, 1, 3}) {
        SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format) << ", " << count
                                        << " numbers from " << skipped);
        for (const at::Tensor& values : numbers_to_encode(count)) {
          expect_same_code(format, values, skipped, threshold_of(skipped));
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
      const LowbitOptions options = {.wire = format, .threshold = threshold_of(skipped)};
      StepsCase ours = random_steps(options, subset);
      StepsCase theirs = case_on_gpu(ours, skipped);
      for (int n = 0; n < 2; ++n) {
        const at::Tensor code =
            contribute_steps(options, subset, kKey, ours.arguments.weights, ours.buffers);
        const at::Tensor their_code =
            contribute_steps(options, subset, kKey, theirs.arguments.weights, theirs.buffers);
        EXPECT_TRUE(same_bits(code, their_code));
        expect_same_buffers(ours.buffers, theirs.buffers);
      }
      std::vector<at::Tensor> sent, their_sent;
      for (int n = 0; n < 5; ++n) {  // more than a kernel takes
        const at::Tensor code =
            contribute_uncounted(options, subset, kKey, ours.arguments.weights, ours.buffers, sent);
        their_sent.push_back(contribute_uncounted(options, subset, kKey, theirs.arguments.weights,
                                                  theirs.buffers, their_sent));
        EXPECT_TRUE(same_bits(code, their_sent.back())) << n << " are under way";
        sent.push_back(code);
      }
      expect_same_buffers(ours.buffers, theirs.buffers);
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
    const at::Tensor next =
        contribute_uncounted(options, whole(parameters), kKey, theirs.arguments.weights,
                             theirs.buffers, {on_gpu(expected), on_gpu(expected)});
    EXPECT_TRUE(same_bits(encode(options.wire, sum - said - said, kKey), next));
  }
}

void expect_same_answer(const Subset& subset, const std::vector<at::Tensor>& parts, int64_t members,
                        int64_t skipped) {
  const LowbitOptions options = {.threshold = threshold_of(skipped)};
  StepsCase ours = random_steps(options, subset);
  StepsCase theirs = case_on_gpu(ours, skipped);
  std::vector<at::Tensor> their_parts;
  for (const at::Tensor& part : parts) their_parts.push_back(on_gpu(part, skipped));
  const ReducedSteps answer = reduce_steps(options, subset, parts, members, kKey, ours.buffers);
  const ReducedSteps their_answer =
      reduce_steps(options, subset, their_parts, members, kKey, theirs.buffers);
  EXPECT_TRUE(same_bits(answer.answer, their_answer.answer));
  expect_same_sums(answer.sums, their_answer.sums);
  expect_same_buffers(ours.buffers, theirs.buffers);
}

TEST_F(WireKernels, AnswersToExactStepsAreTheSame) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const int64_t members : {2, 3, 5}) {
      std::vector<at::Tensor> parts;
      for (int part = 0; part < 3; ++part) parts.push_back(at::randn({subset.count()}) * 0.01);
      if (members == 5 && subset.count() > 0) parts[1][0] = kInfinity;
      if (members == 3 && subset.count() > 0) {
        for (at::Tensor& part : parts) part[0] = kInfinity;
      }
      expect_same_answer(subset, parts, members, skipped);
    }
  });
}

std::vector<at::Tensor> random_codes(int64_t count, int parts) {
  std::vector<at::Tensor> codes;
  for (int part = 0; part < parts; ++part) codes.push_back(random_code(count));
  return codes;
}

TEST_F(WireKernels, AnswersToCodesAreTheSame) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const int parts : {1, 2, 3}) {
      expect_same_answer(subset, random_codes(subset.count(), parts), 3, skipped);
    }
  });
  expect_same_answer(whole(many()), random_codes(many(), 2), 2, 1);
}

// More than the kernel lists, and a mixture with what is exact, take another way.
TEST_F(WireKernels, AnswersToManyCodesAreTheSame) {
  for (const int64_t count : {1, 6, 511, 513, 1101, 8 * 512 + 1}) {
    for (const int parts : {4, 5, 7, 64, 65}) {
      SCOPED_TRACE(testing::Message() << parts << " codes of " << count);
      std::vector<at::Tensor> codes = random_codes(count, parts);
      expect_same_answer(whole(count), codes, 5, 1);
      codes.back() = at::randn({count}) * 0.01;
      expect_same_answer(whole(count), codes, 5, 0);
    }
  }
}

// Whoever has diverged sends zeros in that block; so says whoever else's block is damaged.
TEST_F(WireKernels, AnswersAreFiniteWhateverComes) {
  const int64_t count = 10 * kTernaryBlock + 77;
  at::Tensor diverged = at::randn({count});
  diverged[5] = kInfinity;
  diverged[count - 1] = std::nanf("");
  const std::vector<at::Tensor> codes = {encode(WireFormat::kTernary, diverged, kKey),
                                         random_code(count)};
  expect_same_answer(whole(count), codes, 2, 0);

  const LowbitOptions options;
  StepsCase coded = case_on_gpu(random_steps(options, whole(count)), 0);
  StepsCase exact = case_on_gpu(coded, 0);
  std::vector<at::Tensor> parts, decoded;
  for (int part = 0; part < 3; ++part) {
    parts.push_back(on_gpu(part == 1 ? random_code(count) : damaged_code(count)));
    decoded.push_back(decode(options.wire, parts.back(), count, at::kFloat));
  }
  const ReducedSteps answer = reduce_steps(options, whole(count), parts, 4, kKey, coded.buffers);
  const ReducedSteps expected =
      reduce_steps(options, whole(count), decoded, 4, kKey, exact.buffers);
  EXPECT_TRUE(same_bits(expected.answer, answer.answer));
  EXPECT_TRUE(same_bits(exact.buffers.residual, coded.buffers.residual));
  expect_same_sums(expected.sums.cpu(), answer.sums);
}

// The worker's own is a code, a sum of several, or not there.
TEST_F(WireKernels, MergeOfCodesGivesTheSameBits) {
  for_subsets([](const Subset& subset, int64_t skipped) {
    for (const LowbitOptions& options :
         {LowbitOptions(), LowbitOptions{.smoothing = 0.95},
          LowbitOptions{.smoothing = 0.95, .gain = 1.1, .gain_smoothing = 0.95}}) {
      for (const at::Tensor& own :
           {random_code(subset.count()), at::randn({subset.count()}), at::Tensor()}) {
        StepsCase made = random_steps(options, subset);
        made.arguments.answer = random_code(subset.count());
        made.arguments.own = own;
        made.arguments.counted = options.gain != 0 || skipped == 0;
        made.arguments.compute =
            at::zeros({subset.parameters}, options.gain == 0 ? at::kFloat : at::kBFloat16);
        expect_same_merge(made, skipped);
      }
    }
  });
  StepsCase large = random_steps({}, whole(many()));
  large.arguments.answer = random_code(many());
  large.arguments.own = random_code(many());
  expect_same_merge(large, 0);
}

TEST_F(WireKernels, MergeTakesADamagedBlockForZeros) {
  const int64_t count = 9 * kTernaryBlock + 77;
  const LowbitOptions options = {.smoothing = 0.95, .gain = 1.1, .gain_smoothing = 0.95};
  StepsCase coded = case_on_gpu(random_steps(options, whole(count)), 0);
  StepsCase exact = case_on_gpu(coded, 0);
  coded.arguments.answer = on_gpu(damaged_code(count));
  coded.arguments.own = on_gpu(damaged_code(count));
  exact.arguments.answer = decode(options.wire, coded.arguments.answer, count, at::kFloat);
  exact.arguments.own = decode(options.wire, coded.arguments.own, count, at::kFloat);
  const MergeSums sums = merge_steps(options, coded.arguments, coded.buffers);
  const MergeSums expected = merge_steps(options, exact.arguments, exact.buffers);
  EXPECT_TRUE(same_bits(exact.arguments.weights, coded.arguments.weights));
  expect_same_buffers(exact.buffers, coded.buffers);
  expect_same_sums(expected.sums.cpu(), sums.sums);
}

TEST_F(WireKernels, CodesAreMergedAndReducedInOnePass) {
  for (const Subset& subset : {whole(1101), subset_of({5003, 0.3, 4, 3}, 0)}) {
    StepsCase made = case_on_gpu(random_steps({}, subset), 0);
    const at::Tensor code = on_gpu(random_code(subset.count()));
    const auto reduced = [&](size_t parts) {
      const OwedSteps owed = {.parts = std::vector<at::Tensor>(parts, code),
                              .share = 1,
                              .residual = made.buffers.residual};
      return reduce_in_one_pass(WireFormat::kTernary, subset, owed).code.defined();
    };
    EXPECT_EQ(reduced(4), subset.is_stretch());
    EXPECT_FALSE(reduced(5));
    const MergedSteps merged = {.subset = subset,
                                .answer = code,
                                .own = code,
                                .weights = made.arguments.weights,
                                .common = made.buffers.common,
                                .flight = made.buffers.flight,
                                .pending = {},
                                .momentum = {},
                                .compute = {}};
    EXPECT_EQ(merge_coded_steps(WireFormat::kTernary, {}, merged).defined(), subset.is_stretch());
    EXPECT_FALSE(merge_coded_steps(WireFormat::kInt8, {}, merged).defined());
  }
}

}  // namespace
}  // namespace leeway
