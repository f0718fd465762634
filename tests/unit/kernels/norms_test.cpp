#include "kernels/norms.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

#include "../../support/layouts.h"

namespace leeway {
namespace {

std::vector<double> squares_of(const at::Tensor& flat, const ParameterLayout& layout) {
  const at::Tensor squares = ParameterNorms(layout, at::kCPU).squares(flat);
  const auto* const first = squares.const_data_ptr<double>();
  return {first, first + squares.numel()};
}

TEST(ParameterNorms, OneForEachParameter) {
  const ParameterLayout layout = layout_of({2, 1, 3});
  const std::vector<double> expected = {25, 4, 9};
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor flat = at::tensor({3.0, 4.0, -2.0, 1.0, 2.0, 2.0}, at::kDouble).to(type);
    EXPECT_EQ(squares_of(flat, layout), expected);
  }
  EXPECT_TRUE(squares_of(at::empty({0}), {}).empty());
}

TEST(ParameterNorms, SameBitsAtEveryOffset) {
  // Longer than a part, not a multiple of anything, after neighbours of every size.
  const at::Tensor values = at::randn({70'001});
  const double alone = squares_of(values, layout_of({70'001})).at(0);
  EXPECT_NEAR(alone, values.to(at::kDouble).square().sum().item<double>(), 1e-7);
  for (const int64_t before : {1, 7, 16, 16'384, 20'000}) {
    const at::Tensor flat = at::cat({at::randn({before}), values, at::randn({3})});
    EXPECT_EQ(squares_of(flat, layout_of({before, 70'001, 3})).at(1), alone) << before;
  }
}

TEST(ParameterNorms, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const ParameterLayout layout = layout_of({900'000, 5, 64, 400'001});
  const at::Tensor flat = at::randn({parameter_count(layout)});
  at::set_num_threads(1);
  const std::vector<double> alone = squares_of(flat, layout);
  for (const int count : {2, 3, 5}) {
    at::set_num_threads(count);
    EXPECT_EQ(squares_of(flat, layout), alone) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(ParameterNormsDeathTest, StopsOnABufferThatDoesNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(squares_of(at::zeros({3}), layout_of({4})), "as long as the layout");
}

}  // namespace
}  // namespace leeway
