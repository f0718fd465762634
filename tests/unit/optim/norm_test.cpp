#include "optim/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

ParameterLayout layout_of(const std::vector<int64_t>& counts) {
  ParameterLayout layout;
  int64_t offset = 0;
  for (const int64_t count : counts) {
    layout.push_back({std::to_string(offset), ParameterKind::kVector, offset, 1, count});
    offset += count;
  }
  return layout;
}

TEST(ParameterSquaredNorms, OneForEachParameter) {
  const ParameterLayout layout = layout_of({2, 1, 3});
  const std::vector<double> expected = {25, 4, 9};
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor flat = at::tensor({3.0, 4.0, -2.0, 1.0, 2.0, 2.0}, at::kDouble).to(type);
    EXPECT_EQ(parameter_squared_norms(flat, layout), expected);
  }
  EXPECT_TRUE(parameter_squared_norms(at::empty({0}), {}).empty());
  EXPECT_TRUE(parameter_squared_norms_aten(at::empty({0}), {}).empty());
}

TEST(ParameterSquaredNorms, SameBitsAtEveryOffset) {
  // Longer than a part, not a multiple of anything, after neighbours of every size.
  const at::Tensor values = at::randn({70'001});
  const double alone = parameter_squared_norms(values, layout_of({70'001})).at(0);
  EXPECT_NEAR(alone, values.to(at::kDouble).square().sum().item<double>(), 1e-7);
  for (const int64_t before : {1, 7, 16, 16'384, 20'000}) {
    const at::Tensor flat = at::cat({at::randn({before}), values, at::randn({3})});
    EXPECT_EQ(parameter_squared_norms(flat, layout_of({before, 70'001, 3})).at(1), alone) << before;
  }
}

TEST(ParameterSquaredNorms, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const ParameterLayout layout = layout_of({900'000, 5, 64, 400'001});
  const at::Tensor flat = at::randn({parameter_count(layout)});
  at::set_num_threads(1);
  const std::vector<double> alone = parameter_squared_norms(flat, layout);
  for (const int count : {2, 3, 5}) {
    at::set_num_threads(count);
    EXPECT_EQ(parameter_squared_norms(flat, layout), alone) << count << " threads";
  }
  at::set_num_threads(threads);
}

// The code for other devices, run on the CPU: the same sums except for the last digits.
TEST(ParameterSquaredNorms, AtenFormEqualsTheCpus) {
  const ParameterLayout layout = layout_of({33, 20'000, 1, 64});
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor flat = at::randn({parameter_count(layout)}, type);
    const std::vector<double> ours = parameter_squared_norms(flat, layout);
    const std::vector<double> theirs = parameter_squared_norms_aten(flat, layout);
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-12 * ours[i]);
  }
}

TEST(ParameterSquaredNormsDeathTest, StopsOnABufferThatDoesNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(parameter_squared_norms(at::zeros({3}), layout_of({4})), "as long as the layout");
}

}  // namespace
}  // namespace leeway
