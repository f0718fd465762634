// The loss of a GPU, which leaves its gradient in place of the logits, against the CPU's.
#include "kernels/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gpu.h"

namespace leeway {
namespace {

using GpuLoss = GpuTest;

struct LossSize {
  int64_t rows, columns, vocabulary;
};
// With and without padding, rows that are no multiple of 16 bytes, and one that shared memory is
// too small for.
constexpr LossSize kSizes[] = {{1, 1, 1},          {3, 31, 31},       {7, 128, 97},
                               {5, 257, 256},      {4, 50304, 50257}, {2, 50257, 50257},
                               {2, 130001, 130001}};

TEST_F(GpuLoss, EqualsTheCpus) {
  for (const LossSize& size : kSizes) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << size.rows << " x " << size.columns << " " << type);
      const at::Tensor logits = (at::randn({size.rows, size.columns}) * 4).to(type);
      const at::Tensor targets = at::randint(size.vocabulary, {size.rows}, at::kLong);
      const RowGradientOptions options = {.share = 0.25 / static_cast<double>(size.rows),
                                          .vocabulary = size.vocabulary};
      const RowGradients expected =
          row_gradients(logits.to(at::kFloat, false, true), targets, options);

      const at::Tensor there = to_gpu(logits);
      const at::Tensor evaluated = row_losses(there, to_gpu(targets), size.vocabulary);
      EXPECT_TRUE(at::equal(there.cpu(), logits)) << "an evaluation leaves the logits alone";
      const RowGradients made = row_gradients(there, to_gpu(targets), options);
      const at::Tensor found = made.dlogits.cpu();
      EXPECT_TRUE(at::equal(made.losses, evaluated));
      EXPECT_EQ(made.dlogits.data_ptr(), there.data_ptr()) << "it takes the place of the logits";
      const at::Tensor gradient = expected.dlogits.narrow(1, 0, size.vocabulary);
      EXPECT_TRUE(at::allclose(made.losses.cpu(), expected.losses, 2e-5, 2e-5));
      const at::Tensor counted = found.narrow(1, 0, size.vocabulary).to(at::kFloat);
      const double tolerance = type == at::kFloat ? 1e-5 : 5e-3;
      const double error = (counted - gradient).norm().item<double>();
      EXPECT_LE(error, tolerance * gradient.norm().item<double>() + 1e-12);
      const at::Tensor padding = found.narrow(1, size.vocabulary, size.columns - size.vocabulary);
      EXPECT_EQ(padding.count_nonzero().item<int64_t>(), 0);
    }
  }
}

TEST_F(GpuLoss, IsFiniteForLogitsThatWouldOverflowAnExponential) {
  const at::Tensor logits = at::zeros({1, 5});
  logits[0][2] = 1000;
  const at::Tensor target = to_gpu(at::full({1}, 1, at::kLong));
  EXPECT_NEAR(row_losses(to_gpu(logits), target).item<double>(), 1000, 1e-3);
}

}  // namespace
}  // namespace leeway
