#include "kernels/update_loops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace leeway {
namespace {

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  copy_block(values.data(), static_cast<int64_t>(values.size()), bits.data());
  return bits;
}

TEST(CopyBlock, RoundsToBf16AsATenDoes) {
  std::vector<float> values;
  // Every exponent and sign, with low halves just below, at and above the tie.
  for (uint32_t high = 0; high < 0x10000U; ++high) {
    for (const uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>((high << 16U) | low);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  const std::vector<uint16_t> ours = to_bf16(values);
  const at::Tensor theirs = at::tensor(values).to(at::kBFloat16);
  const auto* expected = static_cast<const uint16_t*>(theirs.const_data_ptr());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(ours[i], expected[i]) << "for " << values[i];
  }
}

TEST(CopyBlock, ANanStaysANanInBf16) {
  // A NaN with only low bits set would become an infinity if truncated.
  const float sneaky = std::bit_cast<float>(0x7f800001U);
  for (const uint16_t bits : to_bf16({std::numeric_limits<float>::quiet_NaN(), sneaky, -sneaky})) {
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U)));
  }
}

TEST(CopyBlock, ConvertsBetweenFp32AndFp64) {
  const std::vector<double> values = {0.1, -2.5, 1e-300};
  std::vector<float> narrow(3);
  copy_block(values.data(), 3, narrow.data());
  EXPECT_EQ(narrow, (std::vector<float>{0.1F, -2.5F, 0.0F}));
  std::vector<double> wide(3);
  copy_block(narrow.data(), 3, wide.data());
  EXPECT_EQ(wide[0], static_cast<double>(0.1F));
}

TEST(SumOfSquares, CountsEveryElementOfEveryLength) {
  // The sum of ones is the length, however much of it the vector loop handles.
  const std::vector<float> ones(100, 1.0F);
  for (int64_t length = 0; length <= 100; ++length) {
    EXPECT_EQ(sum_of_squares(ones.data(), length), static_cast<double>(length));
  }
}

TEST(AdamBlock, GivesTheSameBitsAtEveryPosition) {
  // The vector loop and the remainder must agree, or the bits would depend on the cut.
  const int64_t count = 67;
  StepConstants constants = {.gradient_scale = 0.37,
                             .momentum_share = 0.1,
                             .variance_keep = 0.999,
                             .weight_keep = 0.99,
                             .gradient_part = 1e-3,
                             .momentum_part = 2e-3,
                             .root_scale = 3.1,
                             .epsilon = 1e-8};
  const at::Tensor start = at::randn({4, count}).abs_();
  const at::Tensor whole = start.clone();
  const at::Tensor pieces = start.clone();
  const auto run = [&](const at::Tensor& data, int64_t begin, int64_t length) {
    float* const base = data.mutable_data_ptr<float>() + begin;
    adam_block<float>(constants, {.count = length,
                                  .weights = base,
                                  .gradients = base + count,
                                  .momentum = base + 2 * count,
                                  .variance = base + 3 * count,
                                  .direction = nullptr});
  };
  for (const double noise_share : {1.0, 0.25}) {
    constants.noise_share = noise_share;
    constants.square_scale = 0.8;
    const at::Tensor before = whole.clone();
    run(whole, 0, count);
    for (int64_t i = 0; i < count; ++i) run(pieces, i, 1);
    EXPECT_TRUE(at::equal(whole, pieces));
    EXPECT_FALSE(at::equal(whole, before));
  }
}

}  // namespace
}  // namespace leeway
