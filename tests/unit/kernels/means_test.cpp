#include "kernels/means.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace leeway {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<double> numbers_of(const at::Tensor& sums) {
  const auto* const begin = sums.const_data_ptr<double>();
  return {begin, begin + sums.numel()};
}

TEST(MeanOfFinite, HasScaleSpreadAndWhoIsFinite) {
  const FiniteMean mean = mean_of_finite({at::tensor({1.0F, 2.0F}), at::tensor({3.0F, 6.0F})});
  EXPECT_TRUE(at::equal(mean.mean, at::tensor({2.0F, 4.0F})));
  EXPECT_EQ(numbers_of(mean.sums), (std::vector<double>{20, 5, 1, 1}));
}

TEST(MeanOfFinite, LeavesOutWhoeverHasAValueThatIsNotFinite) {
  for (const float wrong : {std::nanf(""), kInfinity, -kInfinity}) {
    const FiniteMean mean = mean_of_finite({at::tensor({1.0F, 2.0F}), at::tensor({5.0F, wrong}),
                                            at::tensor({3.0F, 6.0F}), at::tensor({-wrong, wrong})});
    EXPECT_TRUE(at::equal(mean.mean, at::tensor({2.0F, 4.0F})));
    EXPECT_EQ(numbers_of(mean.sums), (std::vector<double>{20, 5, 1, 0, 1, 0}));
  }
}

TEST(MeanOfFinite, OfNoneIsNanOrWhatTheCallerSays) {
  const std::vector<at::Tensor> lost = {at::tensor({1.0F, kInfinity}),
                                        at::tensor({std::nanf(""), 1.0F})};
  const FiniteMean none = mean_of_finite(lost);
  EXPECT_TRUE(none.mean.isnan().all().item<bool>());
  EXPECT_TRUE(std::isnan(numbers_of(none.sums)[FiniteMean::kScale]));
  const FiniteMean zero = mean_of_finite(lost, /*if_none=*/0);
  EXPECT_TRUE(at::equal(zero.mean, at::zeros({2})));
  EXPECT_EQ(numbers_of(zero.sums), (std::vector<double>{0, 0, 0, 0}));
}

// Their squares are not finite in fp32, but they are.
TEST(MeanOfFinite, LargeValuesCount) {
  const FiniteMean mean = mean_of_finite({at::full({3}, 3e38F), at::full({3}, -1e38F)});
  EXPECT_TRUE(at::allclose(mean.mean, at::full({3}, 1e38F)));
  EXPECT_TRUE(std::isfinite(numbers_of(mean.sums)[FiniteMean::kScale]));
}

TEST(MeanOfFinite, OfNothingIsNothing) {
  const FiniteMean mean = mean_of_finite({at::empty({0}), at::empty({0})});
  EXPECT_EQ(mean.mean.numel(), 0);
  EXPECT_EQ(numbers_of(mean.sums), (std::vector<double>{0, 0, 1, 1}));
}

}  // namespace
}  // namespace leeway
