#include "kernels/clip.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/norms.h"

namespace leeway {
namespace {

TEST(ClipScale, LeavesSmallGradientsAlone) { EXPECT_EQ(clip_scale(0.25, 1.0), 1.0); }

TEST(ClipScale, BringsLargeGradientsDownToTheClip) {
  EXPECT_NEAR(clip_scale(25.0, 1.0) * 5.0, 1.0, 1e-6);
  EXPECT_NEAR(clip_scale(25.0, 2.0) * 5.0, 2.0, 1e-6);
}

TEST(ClipScale, ZeroMeansNoClipping) { EXPECT_EQ(clip_scale(1e12, 0.0), 1.0); }

TEST(ClipScale, DoesNotHideANanNorm) {
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1.0), 1.0);
}

TEST(StageClip, SharesTheClipByParameters) {
  EXPECT_DOUBLE_EQ(stage_clip(1.0, 25, 100), 0.5);
  EXPECT_DOUBLE_EQ(stage_clip(2.0, 100, 100), 2.0);
}

TEST(StageClip, SquaresOfAllStagesAddUpToTheModels) {
  const double first = stage_clip(1.5, 30, 100);
  const double second = stage_clip(1.5, 70, 100);
  EXPECT_DOUBLE_EQ(first * first + second * second, 1.5 * 1.5);
}

double squared_norm(const at::Tensor& values) {
  return squared_distance(values, at::zeros_like(values)).item<double>();
}

TEST(SquaredDistance, OfAFewElements) {
  EXPECT_DOUBLE_EQ(squared_norm(at::tensor({3.0F, 4.0F})), 25.0);
  EXPECT_DOUBLE_EQ(squared_norm(at::tensor({1.0, 2.0, 2.0}, at::kDouble)), 9.0);
  EXPECT_DOUBLE_EQ(squared_norm(at::empty({0})), 0.0);
  const at::Tensor rounded = at::tensor({1.0, 3.0}).to(at::kBFloat16);
  EXPECT_DOUBLE_EQ(squared_distance(rounded, at::tensor({1.5F, 1.0F})).item<double>(), 4.25);
}

TEST(SquaredDistance, AddsInFp64) {
  // A million small values next to a large one: they add up to .0105, all of it lost in fp32.
  const at::Tensor values = at::full({(1 << 20) + 7}, 1e-4F);
  values[3] = 4096.0F;
  const double small = static_cast<double>(1e-4F);
  EXPECT_NEAR(squared_norm(values), 4096.0 * 4096.0 + ((1 << 20) + 6) * small * small, 1e-5);
}

TEST(SquaredDistance, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor values = at::randn({3'000'001});
  at::set_num_threads(1);
  const double alone = squared_norm(values);
  for (const int count : {2, 3, 5}) {
    at::set_num_threads(count);
    EXPECT_EQ(squared_norm(values), alone) << count << " threads";
  }
  at::set_num_threads(threads);
  EXPECT_NEAR(alone, values.to(at::kDouble).square().sum().item<double>(), 1e-6);
}

}  // namespace
}  // namespace leeway
