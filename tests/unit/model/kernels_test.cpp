// Checks what the layer tests do not: that bits do not depend on the number of threads.
#include "kernels/layers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>

#include "layer_check.h"

namespace leeway {
namespace {

at::Tensor with_threads(int threads, const std::function<at::Tensor()>& compute) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  const at::Tensor result = compute();
  at::set_num_threads(before);
  return result;
}

void expect_same_bits(const std::function<at::Tensor()>& compute) {
  const at::Tensor one = with_threads(1, compute);
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(at::equal(one, with_threads(threads, compute))) << threads << " threads";
  }
}

class Kernels : public testing::TestWithParam<at::ScalarType> {
 protected:
  // Large enough for several threads, and not a multiple of any vector width.
  static constexpr int64_t kRows = 519;
  static constexpr int64_t kCols = 331;
  at::Tensor tensor(const std::string& name, at::IntArrayRef sizes) {
    return random_tensor(name, sizes, GetParam());
  }
};

TEST_P(Kernels, RmsNormHasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = tensor("x", {kRows, kCols});
  const at::Tensor weight = tensor("w", {kCols});
  const at::Tensor rstd = at::empty({kRows}, x.options());
  expect_same_bits([&] {
    at::Tensor y = at::empty_like(x);
    kernels::rms_norm_forward(x, weight, 1e-5, y, rstd);
    return y;
  });
  const at::Tensor dy = tensor("dy", {kRows, kCols});
  const at::Tensor residual = tensor("r", {kRows, kCols});
  expect_same_bits([&] {
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dweight = at::ones_like(weight);
    kernels::rms_norm_backward({.dy = dy,
                                .x = x,
                                .rstd = rstd,
                                .weight = weight,
                                .residual = residual,
                                .dx = dx,
                                .dweight = dweight});
    return at::cat({dx.flatten(), dweight});
  });
}

TEST_P(Kernels, SwigluHasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = tensor("x", {kRows, 2 * kCols});
  const at::Tensor dy = tensor("dy", {kRows, kCols});
  expect_same_bits([&] {
    at::Tensor y = at::empty_like(dy);
    kernels::swiglu_forward(x, y);
    return y;
  });
  expect_same_bits([&] {
    at::Tensor dx = at::empty_like(x);
    kernels::swiglu_backward(x, dy, dx);
    return dx;
  });
}

TEST_P(Kernels, RotationHasTheSameBitsForAnyNumberOfThreadsAndAnInverse) {
  constexpr kernels::Rotation kRotation = {
      .time = 173, .heads = 7, .head_size = 34, .direction = 1};
  const at::Tensor x = tensor("x", {3 * 173, 9 * 34});
  const at::Tensor angles = tensor("angles", {200, 17});
  const auto rotated = [&] {
    at::Tensor y = x.clone();
    kernels::rotate(y, angles.cos(), angles.sin(), kRotation);
    return y;
  };
  expect_same_bits(rotated);
  const at::Tensor y = rotated();
  EXPECT_TRUE(at::equal(y.narrow(1, 7 * 34, 68), x.narrow(1, 7 * 34, 68)));  // v stays
  kernels::Rotation back = kRotation;
  back.direction = -1;
  kernels::rotate(y, angles.cos(), angles.sin(), back);
  EXPECT_LE(relative_distance(y, x), GetParam() == at::kFloat ? 1e-6 : 1e-15);
}

TEST_P(Kernels, EmbeddingGradientHasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor ids = random_ids("ids", {kRows}, 11);
  const at::Tensor dy = tensor("dy", {kRows, kCols});
  expect_same_bits([&] {
    at::Tensor g = at::ones({11, kCols}, dy.options());
    kernels::embedding_backward(ids, dy, g);
    return g;
  });
}

TEST_P(Kernels, RefuseTensorsWithGaps) {
  const at::Tensor x = tensor("x", {4, 12}).narrow(1, 0, 6);
  EXPECT_DEATH(kernels::swiglu_forward(x, tensor("y", {4, 3})), "contiguous");
}

TEST_P(Kernels, DoNotSupportBf16) {
  EXPECT_TRUE(kernels::takes(tensor("x", {2, 2})));
  EXPECT_FALSE(kernels::takes(random_tensor("x", {2, 2}, at::kBFloat16)));
}

INSTANTIATE_TEST_SUITE_P(Types, Kernels, testing::Values(at::kFloat, at::kDouble),
                         [](const auto& type) { return c10::toString(type.param); });

}  // namespace
}  // namespace leeway
