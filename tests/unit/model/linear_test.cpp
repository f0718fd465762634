#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "kernels/columns.h"
#include "layer_check.h"
#include "model/layers.h"

namespace leeway {
namespace {

struct Options {
  bool bias = false;
  bool residual = false;
};

// Inputs are x, weight, then bias and residual if there are any.
LinearViews views_of(const Tensors& inputs, const Options& options) {
  LinearViews views;
  views.weight = inputs[1];
  if (options.bias) views.bias = inputs[2];
  return views;
}

at::Tensor residual_of(const Tensors& inputs, const Options& options) {
  return options.residual ? inputs.back() : at::Tensor();
}

LayerCase linear_case(int64_t tokens, int64_t in, int64_t out, const Options& options) {
  LayerCase layer;
  layer.what = "linear " + std::to_string(tokens) + "x" + std::to_string(in) + "->" +
               std::to_string(out) + (options.bias ? " bias" : "") +
               (options.residual ? " residual" : "");
  layer.inputs = {random_tensor("x", {tokens, in}), random_tensor("w", {out, in})};
  if (options.bias) layer.inputs.push_back(random_tensor("b", {out}));
  if (options.residual) layer.inputs.push_back(random_tensor("r", {tokens, out}));
  layer.formula = [=](const Tensors& t) {
    at::Tensor y = at::matmul(t[0], t[1].t());
    for (size_t i = 2; i < t.size(); ++i) y = y + t[i];
    return y;
  };
  layer.forward = [=](const Tensors& t) {
    return linear_forward(views_of(t, options), t[0], residual_of(t, options));
  };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) {
    LinearViews g;
    g.weight = filled_buffer(t[1]);
    if (options.bias) g.bias = filled_buffer(t[2]);
    Tensors gradients = {linear_backward(views_of(t, options), t[0], dy, g)};
    gradients.push_back(taken_back(g.weight));
    if (options.bias) gradients.push_back(taken_back(g.bias));
    if (options.residual) gradients.push_back(dy);  // by definition: the caller adds it
    return gradients;
  };
  return layer;
}

TEST(Linear, EqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true}) {
        check_layer(linear_case(size.tokens(), 7, 13, {bias, residual}));
        check_layer(linear_case(size.tokens(), 31, 5, {bias, residual}));
      }
    }
  }
}

TEST(Linear, LeavesItsResidualAlone) {
  const at::Tensor residual = random_tensor("r", {5, 4});
  const at::Tensor before = residual.clone();
  LinearViews views;
  views.weight = random_tensor("w", {4, 3});
  views.bias = random_tensor("b", {4});
  linear_forward(views, random_tensor("x", {5, 3}), residual);
  EXPECT_TRUE(at::equal(residual, before));
}

TEST(Linear, PartsOfTheBackwardMakeTheSame) {
  const at::Tensor x = random_tensor("x", {6, 3});
  const at::Tensor dy = random_tensor("dy", {6, 4});
  const LinearViews views = {random_tensor("w", {4, 3}), random_tensor("b", {4})};
  const LinearViews together = {at::ones({4, 3}, at::kDouble), at::ones({4}, at::kDouble)};
  const LinearViews apart = {at::ones({4, 3}, at::kDouble), at::ones({4}, at::kDouble)};
  const at::Tensor dx = linear_backward(views, x, dy, together);
  linear_backward_weight(x, dy, apart);
  add_column_sums(dy, apart.bias);
  EXPECT_TRUE(at::equal(dx, linear_backward_input(views, dy)));
  EXPECT_TRUE(at::equal(together.weight, apart.weight));
  EXPECT_TRUE(at::equal(together.bias, apart.bias));
}

// Tests the check itself: a slightly wrong backward must not pass.
TEST(LayerCheck, NoticesAWrongBackward) {
  LayerCase layer = linear_case(3, 5, 4, {});
  const auto right = layer.backward;
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) {
    Tensors gradients = right(t, dy);
    gradients[1] = gradients[1] * 1.001;
    return gradients;
  };
  EXPECT_FALSE([&] {
    testing::TestPartResultArray failures;
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check_layer(layer);
    return failures.size() == 0;
  }());
}

}  // namespace
}  // namespace leeway
