#include "model/head.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "../../support/counted_memory.h"
#include "../../support/model_shapes.h"
#include "kernels/loss.h"
#include "layer_check.h"
#include "model/layers.h"
#include "model/saved_bytes.h"

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
  const int64_t at_once = loss_rows_at_once(kRows, kVocabulary, 4, at::kCPU);
  ASSERT_GT(kRows, 2 * at_once);
  ASSERT_LE(at_once * kVocabulary * 4, 1 << 27) << "that is what a part may take";
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

TEST(LossRows, AreAllOrPartsOfAboutTheSameSize) {
  const auto on_gpu = [](int64_t rows) { return loss_rows_at_once(rows, 50'304, 2, at::kCUDA); };
  EXPECT_EQ(on_gpu(1), 1);
  EXPECT_EQ(on_gpu(21'248), 21'248) << "just under 2 GiB";
  EXPECT_EQ(on_gpu(21'249), 10'752);
  EXPECT_EQ(on_gpu(32'768), 16'384);
  EXPECT_EQ(on_gpu(65'536), 16'384);
  EXPECT_EQ(loss_rows_at_once(1000, 1'000'000'000, 4, at::kCPU), 128) << "some at least";
}

TEST(Head, RowsOfPaddingDoNotCount) {
  Case padded = case_of(14, 5, 40);
  padded.targets = padded.targets.remainder(31);
  const auto counted = [](const LinearViews& all) {
    return LinearViews{.weight = all.weight.narrow(0, 0, 31).clone(), .bias = {}};
  };
  const LinearViews w = counted(padded.w), g = counted(padded.g);
  const HeadGradient made =
      head_gradient(padded.w, padded.x, padded.targets, {.vocabulary = 31}, padded.g);
  const HeadGradient expected = head_gradient(w, padded.x, padded.targets, {}, g);
  EXPECT_NEAR(made.loss.item<double>(), expected.loss.item<double>(), 1e-6);
  EXPECT_LE(relative_distance(made.dx, expected.dx), 1e-6);
  EXPECT_LE(relative_distance(padded.g.weight.narrow(0, 0, 31), g.weight), 1e-6);
  EXPECT_EQ(padded.g.weight.narrow(0, 31, 9).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(head_loss(padded.w, padded.x, padded.targets, 31).item<double>(),
            made.loss.item<double>());
}

TEST(Head, TakesThePlannedMemory) {
  at::set_num_threads(1);  // what other threads allocate is not counted
  constexpr int64_t kRows = 1000, kVocabulary = 50'257;
  ModelShape shape = small_llama();
  shape.vocabulary = kVocabulary;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Case own = case_of(kRows, shape.width, kVocabulary, type);
    own.g.weight = own.g.weight.to(at::kFloat);
    const double planned = loss_bytes(shape, whole_model(shape),
                                      {.tokens = kRows,
                                       .number_bytes = static_cast<int64_t>(c10::elementSize(type)),
                                       .device = at::kCPU});
    const CountedMemory counted;
    head_gradient(own.w, own.x, own.targets, {}, own.g);
    EXPECT_NEAR(planned / counted.peak(), 1, 0.1) << type;
  }
}

}  // namespace
}  // namespace leeway
