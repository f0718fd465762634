// What the tests of averaging's kernels share: subsets of odd shapes, copies on the GPU, and how
// both are compared. The same bits, and sums that differ only by the order of fp64 additions.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../../support/subsets.h"
#include "averaging/lowbit.h"
#include "averaging/wire.h"
#include "gpu.h"

namespace leeway {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr RandomKey kKey = {.seed = 3, .stream = Stream::kRounding, .name = 5};
// More than any kernel's blocks do at once, even four numbers at a time.
inline int64_t many() { return test_gpu().blocks_most * 4261 + 1; }

inline void expect_same_sums(const at::Tensor& ours, const at::Tensor& theirs) {
  ASSERT_EQ(theirs.device(), test_gpu().device);
  ASSERT_EQ(ours.numel(), theirs.numel());
  const at::Tensor host = theirs.cpu();
  for (int64_t i = 0; i < ours.numel(); ++i) {
    const auto expected = ours[i].item<double>();
    const auto found = host[i].item<double>();
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << i;
    } else {
      EXPECT_NEAR(found, expected, 1e-12 * std::abs(expected)) << i;
    }
  }
}

struct Shape {
  int64_t parameters = 0;
  double fraction = 1;
  int64_t granularity = 64;
  int64_t chunks = 1;
};

// Whole and short runs and chunks, whole and short vectors, one weight, none; the last is more than
// the blocks do at once, one number at a time.
inline std::vector<Shape> shapes() {
  return {{1, 1, 64, 1},          {511, 1, 64, 1},
          {513, 1, 64, 2},        {4099, 1, 64, 3},
          {0, 1, 64, 1},          {1, 0.3, 1, 1},
          {513, 0.3, 1, 1},       {5003, 0.05, 1, 3},
          {5003, 0.3, 3, 2},      {5003, 0.3, 4, 3},
          {70'001, 0.3, 64, 1},   {70'001, 0.3, 64, 3},
          {70'001, 0.3, 8, 2},    {70'001, 0.5, 100, 1},
          {70'001, 0.3, 5000, 2}, {test_gpu().blocks_most * 1136 + 771, 0.9, 64, 1}};
}

inline Subset subset_of(const Shape& shape, int64_t chunk) {
  const Cut cut({.seed = 9,
                 .parameters = shape.parameters,
                 .fraction = shape.fraction,
                 .granularity = shape.granularity});
  return cut.subset(5).chunk(chunk, shape.chunks);
}

template <class Body>
void for_subsets(const Body& body) {
  for (const Shape& shape : shapes()) {
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (const int64_t skipped : {0, 1}) {
        SCOPED_TRACE(testing::Message()
                     << shape.parameters << " parameters, fraction " << shape.fraction
                     << ", runs of " << shape.granularity << ", chunk " << chunk << " of "
                     << shape.chunks << ", from element " << skipped);
        body(subset_of(shape, chunk), skipped);
      }
    }
  }
}

// Of steps whose size differs from block to block.
inline at::Tensor random_code(int64_t count) {
  const at::Tensor sizes = at::pow(10.0, at::randn({count / kTernaryBlock + 1}) - 2);
  const at::Tensor steps =
      at::randn({count}) * sizes.repeat_interleave(kTernaryBlock).slice(0, 0, count);
  return encode(WireFormat::kTernary, steps.to(at::kFloat), kKey);
}

// With blocks that nobody could have encoded: an impossible byte, a scale that is not finite, and
// one that is negative.
inline at::Tensor damaged_code(int64_t count) {
  const at::Tensor code = random_code(count);
  auto* const bytes = code.mutable_data_ptr<uint8_t>();
  const int64_t blocks = (count + kTernaryBlock - 1) / kTernaryBlock;
  for (int64_t block = 0; block < blocks; block += 2) {
    uint8_t* const own = bytes + block * blocks_bytes(WireFormat::kTernary, kTernaryBlock);
    if (block % 6 == 0) own[4] = 243;
    if (block % 6 == 2) own[3] = 0x7f, own[2] = 0x80;
    if (block % 6 == 4) own[3] = 0xbf;
  }
  return code;
}

struct StepsCase {
  LowbitOptions options;
  LowbitMergeArguments arguments;
  LowbitBuffers buffers;
};

inline StepsCase random_steps(const LowbitOptions& options, const Subset& subset) {
  const at::Tensor start = at::randn({subset.parameters});
  StepsCase made = {.options = options,
                    .arguments = {.subset = subset,
                                  .answer = at::randn({subset.count()}) * 0.01,
                                  .own = at::randn({subset.count()}) * 0.01,
                                  .weights = start + at::randn({subset.parameters}) * 0.01},
                    .buffers = make_lowbit_buffers(options, start)};
  made.buffers.flight.normal_(0, 0.01);
  made.buffers.residual.normal_(0, 0.01);
  if (options.smoothing != 0) made.buffers.pending.normal_(0, 0.01);
  if (options.gain != 0) made.buffers.momentum.normal_(0, 0.01);
  return made;
}

inline StepsCase case_on_gpu(const StepsCase& own, int64_t skipped) {
  StepsCase copy = own;
  copy.arguments.answer = on_gpu(own.arguments.answer, skipped);
  copy.arguments.own = on_gpu(own.arguments.own, skipped);
  copy.arguments.weights = on_gpu(own.arguments.weights, skipped);
  copy.arguments.compute = on_gpu(own.arguments.compute, skipped);
  for (auto member : {&LowbitBuffers::common, &LowbitBuffers::flight, &LowbitBuffers::pending,
                      &LowbitBuffers::momentum, &LowbitBuffers::residual}) {
    copy.buffers.*member = on_gpu(own.buffers.*member, skipped);
  }
  return copy;
}

inline void expect_same_buffers(const LowbitBuffers& ours, const LowbitBuffers& theirs) {
  EXPECT_TRUE(same_bits(ours.common, theirs.common)) << "common";
  EXPECT_TRUE(same_bits(ours.flight, theirs.flight)) << "flight";
  EXPECT_TRUE(same_bits(ours.pending, theirs.pending)) << "pending";
  EXPECT_TRUE(same_bits(ours.momentum, theirs.momentum)) << "momentum";
  EXPECT_TRUE(same_bits(ours.residual, theirs.residual)) << "residual";
}

inline void expect_same_merge(StepsCase ours, int64_t skipped) {
  StepsCase theirs = case_on_gpu(ours, skipped);
  const MergeSums sums = merge_steps(ours.options, ours.arguments, ours.buffers);
  const MergeSums their_sums = merge_steps(theirs.options, theirs.arguments, theirs.buffers);
  EXPECT_TRUE(same_bits(ours.arguments.weights, theirs.arguments.weights)) << "weights";
  EXPECT_TRUE(same_bits(ours.arguments.compute, theirs.arguments.compute)) << "compute";
  expect_same_buffers(ours.buffers, theirs.buffers);
  EXPECT_EQ(sums.count, their_sums.count);
  expect_same_sums(sums.sums, their_sums.sums);
}

}  // namespace leeway
