#include <gtest/gtest.h>

#include "layer_check.h"
#include "model/layers.h"

namespace leeway {
namespace {

at::Tensor formula_of(Architecture architecture, const Tensors& t, bool bias) {
  const at::Tensor& x = t[0];
  if (architecture == Architecture::kLlama) {
    return x / at::sqrt(at::mean(x * x, 1, true) + kNormEpsilon) * t[1];
  }
  const at::Tensor centred = x - at::mean(x, 1, true);
  const at::Tensor y = centred / at::sqrt(at::mean(centred * centred, 1, true) + kNormEpsilon);
  return bias ? y * t[1] + t[2] : y * t[1];
}

NormViews views_of(const Tensors& t, bool bias) {
  NormViews views;
  views.weight = t[1];
  if (bias) views.bias = t[2];
  return views;
}

// Inputs are x, weight, and bias if there is one.
at::Tensor backward_of(Architecture architecture, const NormViews& w, const NormSaved& saved,
                       const at::Tensor& dy, const at::Tensor& residual, const NormViews& g) {
  return with_sums([&](ColumnSums& sums) {
    return norm_backward(architecture, w, saved, dy, {residual, g, sums});
  });
}

LayerCase norm_case(Architecture architecture, bool bias, int64_t tokens, int64_t width) {
  LayerCase layer;
  layer.what = std::string(architecture == Architecture::kLlama ? "rms" : "layer norm") +
               (bias ? " bias " : " ") + std::to_string(tokens) + "x" + std::to_string(width);
  layer.inputs = {random_tensor("x", {tokens, width}), random_tensor("w", {width}) + 2};
  if (bias) layer.inputs.push_back(random_tensor("b", {width}));
  layer.formula = [=](const Tensors& t) { return formula_of(architecture, t, bias); };
  layer.forward = [=](const Tensors& t) {
    NormSaved saved;
    return norm_forward(architecture, views_of(t, bias), t[0], saved);
  };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) {
    NormSaved saved;
    norm_forward(architecture, views_of(t, bias), t[0], saved);
    NormViews g;
    g.weight = filled_buffer(t[1]);
    if (bias) g.bias = filled_buffer(t[2]);
    Tensors gradients = {
        backward_of(architecture, views_of(t, bias), saved, dy, /*residual=*/{}, g)};
    gradients.push_back(taken_back(g.weight));
    if (bias) gradients.push_back(taken_back(g.bias));
    return gradients;
  };
  return layer;
}

TEST(Norm, RmsEqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    for (const int64_t width : {3, 13, 37, 130}) {
      check_layer(norm_case(Architecture::kLlama, false, size.tokens(), width));
    }
  }
}

TEST(Norm, LayerNormEqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    for (const bool bias : {false, true}) {
      for (const int64_t width : {5, 13, 37}) {
        check_layer(norm_case(Architecture::kGpt2, bias, size.tokens(), width));
      }
    }
  }
}

TEST(Norm, BackwardAddsTheResidual) {
  for (const auto architecture : {Architecture::kLlama, Architecture::kGpt2}) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      NormViews views, g;
      views.weight = random_tensor("w", {11}, dtype);
      g.weight = filled_buffer(views.weight);
      NormSaved saved;
      const at::Tensor x = random_tensor("x", {6, 11}, dtype);
      norm_forward(architecture, views, x, saved);
      const at::Tensor dy = random_tensor("dy", {6, 11}, dtype);
      const at::Tensor residual = random_tensor("r", {6, 11}, dtype);
      const at::Tensor kept = residual.clone();
      const at::Tensor without = backward_of(architecture, views, saved, dy, /*residual=*/{}, g);
      const at::Tensor zeros = at::zeros_like(residual);
      EXPECT_TRUE(at::equal(backward_of(architecture, views, saved, dy, zeros, g), without));
      const at::Tensor with = backward_of(architecture, views, saved, dy, residual, g);
      const double tolerance = dtype == at::kBFloat16 ? 1e-2 : 1e-6;
      EXPECT_LE(relative_distance(with, without + residual), tolerance);
      EXPECT_TRUE(at::equal(residual, kept));
    }
  }
}

TEST(Norm, ARowOfZerosStaysFinite) {
  for (const auto architecture : {Architecture::kLlama, Architecture::kGpt2}) {
    NormViews views, g;
    views.weight = at::ones({5}, at::kFloat);
    g.weight = at::zeros({5}, at::kFloat);
    NormSaved saved;
    const at::Tensor zeros = at::zeros({2, 5}, at::kFloat);
    EXPECT_TRUE(at::equal(norm_forward(architecture, views, zeros, saved), zeros));
    const at::Tensor dx = backward_of(architecture, views, saved, at::ones_like(zeros), zeros, g);
    EXPECT_TRUE(at::isfinite(dx).all().item<bool>());
  }
}

}  // namespace
}  // namespace leeway
