#include <gtest/gtest.h>

#include <cmath>

#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "layer_check.h"

namespace leeway {
namespace {

LayerCase embedding_case(int64_t tokens, int64_t vocabulary, int64_t width) {
  LayerCase layer;
  layer.what = "embedding " + std::to_string(tokens) + " of " + std::to_string(vocabulary);
  layer.inputs = {random_tensor("table", {vocabulary, width})};
  const at::Tensor ids = random_ids("ids", {tokens}, vocabulary);
  const at::Tensor choice = at::one_hot(ids, vocabulary).to(at::kDouble);
  layer.formula = [=](const Tensors& t) { return at::matmul(choice, t[0]); };
  layer.forward = [=](const Tensors& t) { return embedding_forward(t[0], ids); };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) -> Tensors {
    const at::Tensor g = filled_buffer(t[0]);
    embedding_backward(ids, dy, g);
    return {taken_back(g)};
  };
  return layer;
}

LayerCase loss_case(int64_t tokens, int64_t vocabulary, double scale) {
  LayerCase layer;
  layer.what = "loss " + std::to_string(tokens) + " of " + std::to_string(vocabulary);
  layer.inputs = {random_tensor("logits", {tokens, vocabulary}) * 3};
  const at::Tensor targets = random_ids("targets", {tokens}, vocabulary);
  layer.formula = [=](const Tensors& t) {
    const at::Tensor chosen = t[0].gather(1, targets.unsqueeze(1)).squeeze(1);
    return (at::logsumexp(t[0], 1) - chosen).mean() * scale;
  };
  layer.forward = [=](const Tensors& t) { return row_losses(t[0], targets).mean() * scale; };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) -> Tensors {
    const double share = scale * dy.item<double>() / static_cast<double>(tokens);
    return {row_gradients(t[0].clone(), targets, {.share = share}).dlogits};
  };
  return layer;
}

TEST(Embedding, EqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    check_layer(embedding_case(size.tokens(), 7, 5));  // every id many times
    check_layer(embedding_case(size.tokens(), 61, 19));
  }
}

// Adding ones in bf16 would stop at 256.
TEST(Embedding, AFrequentTokenKeepsAllOfItsGradientInBf16) {
  const at::Tensor g = at::zeros({3, 2}, at::kFloat);
  embedding_backward(at::ones({5000}, at::kLong), at::ones({5000, 2}, at::kBFloat16), g);
  EXPECT_EQ(g[1][0].item<double>(), 5000);
  EXPECT_EQ(g.sum().item<double>(), 10000);
}

TEST(Loss, EqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    check_layer(loss_case(size.tokens(), 53, 1.0));
    check_layer(loss_case(size.tokens(), 257, 0.25));
  }
}

TEST(Loss, OfUniformLogitsIsTheLogarithmOfTheVocabulary) {
  const at::Tensor targets = random_ids("targets", {9}, 31);
  const at::Tensor losses = row_losses(at::full({9, 31}, 2.5, at::kFloat), targets);
  ASSERT_EQ(losses.sizes(), at::IntArrayRef({9}));
  EXPECT_LE((losses - std::log(31.0)).abs().max().item<double>(), 1e-6);
}

TEST(Loss, IsFp32ForBf16Logits) {
  const at::Tensor logits = random_tensor("logits", {9, 31}, at::kBFloat16);
  const RowGradients made = row_gradients(logits, random_ids("targets", {9}, 31), {});
  EXPECT_EQ(made.losses.scalar_type(), at::kFloat);
  EXPECT_EQ(made.dlogits.scalar_type(), at::kBFloat16);
}

TEST(Loss, IsFiniteForLogitsThatWouldOverflowAnExponential) {
  const at::Tensor logits = at::zeros({1, 5}, at::kFloat);
  logits[0][2] = 1000;
  const at::Tensor loss = row_losses(logits, at::full({1}, 1, at::kLong));
  EXPECT_NEAR(loss.item<double>(), 1000, 1e-3);
}

}  // namespace
}  // namespace leeway
