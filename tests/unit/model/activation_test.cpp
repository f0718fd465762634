#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/activation.h"
#include "layer_check.h"

namespace leeway {
namespace {

at::Tensor formula_of(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return 0.5 * x * (1 + at::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return at::where(x > 0, x, at::zeros_like(x));
    case Activation::kSwiglu:
      break;
  }
  const int64_t hidden = x.size(1) / 2;
  const at::Tensor gate = x.narrow(1, 0, hidden);
  return gate / (1 + at::exp(-gate)) * x.narrow(1, hidden, hidden);
}

at::Tensor gradient_of(Activation activation, const at::Tensor& x, const at::Tensor& dy) {
  return with_sums([&](ColumnSums& sums) {
    return activation_backward(activation, x, dy, {{}, sums}).dx;
  });
}

LayerCase activation_case(Activation activation, int64_t tokens, int64_t hidden, double scale) {
  LayerCase layer;
  layer.what = "activation " + std::to_string(static_cast<int>(activation)) + " " +
               std::to_string(tokens) + "x" + std::to_string(hidden);
  const int64_t width = activation == Activation::kSwiglu ? 2 * hidden : hidden;
  layer.inputs = {random_tensor("x", {tokens, width}) * scale};
  layer.formula = [=](const Tensors& t) { return formula_of(activation, t[0]); };
  layer.forward = [=](const Tensors& t) { return activation_forward(activation, t[0]); };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) -> Tensors {
    return {gradient_of(activation, t[0], dy)};
  };
  return layer;
}

TEST(Activation, EqualsItsFormula) {
  for (const auto activation : {Activation::kSwiglu, Activation::kGelu, Activation::kRelu}) {
    for (const BatchSize& size : kBatchSizes) {
      check_layer(activation_case(activation, size.tokens(), 13, 1.0));
      check_layer(activation_case(activation, size.tokens(), 35, 4.0));
    }
  }
}

// Our own exponential must be accurate over the whole range, not only where activations usually
// are.
TEST(Activation, SwigluIsExactOverTheRangeOfFp32) {
  const at::Tensor gate = at::linspace(-100, 100, 4001, at::kDouble).to(at::kFloat).view({-1, 1});
  const at::Tensor x = at::cat({gate, at::ones_like(gate)}, 1);
  const at::Tensor y = activation_forward(Activation::kSwiglu, x);
  const at::Tensor wide = gate.to(at::kDouble);
  const at::Tensor expected = wide / (1 + at::exp(-wide));
  const at::Tensor error = (y.to(at::kDouble) - expected).abs();
  // Below -87 the exact values are under 1e-36: only absolute accuracy is possible.
  EXPECT_TRUE((error <= 3e-7 * expected.abs() + 2e-36).all().item<bool>());
}

TEST(Activation, SwigluPropagatesNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = at::ones({3, 34}, at::kFloat);
  x[1][5] = nan;
  x[2][20] = nan;
  const at::Tensor y = activation_forward(Activation::kSwiglu, x);
  EXPECT_EQ(at::isnan(y).sum().item<int64_t>(), 2);
  const at::Tensor dx = gradient_of(Activation::kSwiglu, x, at::ones({3, 17}, at::kFloat));
  EXPECT_TRUE(std::isnan(dx[1][5].item<float>()));
  EXPECT_TRUE(std::isnan(dx[2][3].item<float>()));
}

}  // namespace
}  // namespace leeway
