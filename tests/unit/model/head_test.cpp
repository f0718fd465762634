#include "model/head.h"

#include <gtest/gtest.h>

#include "kernels/loss.h"
#include "layer_check.h"
#include "model/layers.h"

namespace leeway {
namespace {

struct Case {
  LinearViews w;
  LinearViews g;
  at::Tensor x;
  at::Tensor targets;
};

Case case_of(int64_t rows, int64_t width, int64_t vocabulary, at::ScalarType type = at::kFloat) {
  return {.w = {.weight = random_tensor("w", {vocabulary, width}, type), .bias = {}},
          .g = {.weight = at::zeros({vocabulary, width}, type), .bias = {}},
          .x = random_tensor("x", {rows, width}, type),
          .targets = random_ids("targets", {rows}, vocabulary)};
}

TEST(Head, IsAProductAndALoss) {
  const Case own = case_of(14, 5, 31, at::kDouble);
  const HeadGradient made = head_gradient(own.w, own.x, own.targets, {.scale = 0.5}, own.g);
  const at::Tensor w = own.w.weight.clone().requires_grad_();
  const at::Tensor x = own.x.clone().requires_grad_();
  const at::Tensor logits = at::mm(x, w.t());
  const at::Tensor chosen = logits.gather(1, own.targets.unsqueeze(1)).squeeze(1);
  const at::Tensor loss = (at::logsumexp(logits, 1) - chosen).mean();
  (0.5 * loss).backward();
  EXPECT_NEAR(made.loss.item<double>(), loss.item<double>(), 1e-14);
  EXPECT_LE(relative_distance(made.dx, x.grad()), 1e-14);
  EXPECT_LE(relative_distance(own.g.weight, w.grad()), 1e-14);
  EXPECT_TRUE(at::equal(head_loss(own.w, own.x, own.targets, 0), made.loss));
}

// A vocabulary so large that the logits are made in three parts.
TEST(Head, PartsMakeNoDifference) {
  constexpr int64_t kRows = 301, kVocabulary = 260'000;
  const int64_t most = loss_rows_most(kVocabulary, 4, at::kCPU);
  ASSERT_GT(kRows, 2 * most);
  ASSERT_LE(most * kVocabulary * 4, 1 << 27) << "that is what a part may take";
  const Case own = case_of(kRows, 3, kVocabulary);
  const HeadGradient made = head_gradient(own.w, own.x, own.targets, {.scale = 0.25}, own.g);
  const RowGradients whole =
      row_gradients(linear_forward(own.w, own.x), own.targets, {.share = 0.25 / kRows});
  const LinearViews g = {.weight = at::zeros_like(own.g.weight), .bias = {}};
  const at::Tensor dx = linear_backward(own.w, own.x, whole.dlogits, g);
  EXPECT_NEAR(made.loss.item<double>(), whole.losses.mean().item<double>(), 1e-5);
  EXPECT_LE(relative_distance(made.dx, dx), 1e-5);
  EXPECT_LE(relative_distance(own.g.weight, g.weight), 1e-5);
  EXPECT_TRUE(at::equal(head_loss(own.w, own.x, own.targets, 0), made.loss));
}

}  // namespace
}  // namespace leeway
