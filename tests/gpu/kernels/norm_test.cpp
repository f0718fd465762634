// The norms of a GPU in one sweep, against their formulas in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpu.h"
#include "kernels/layer_norm.h"

namespace leeway {
namespace {

using GpuNorm = GpuTest;

double relative(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor difference = found.cpu().to(at::kDouble) - expected;
  return difference.norm().item<double>() / (expected.norm().item<double>() + 1e-9);
}

at::Tensor backward_of(const NormBackward& a) {
  return with_sums([&](ColumnSums& sums) { return norm_backward_in_one_pass(a, sums); });
}

// Without a bias and a residual, if it is not LayerNorm.
void check_norm(int64_t rows, int64_t columns, bool layer_norm) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns
                                  << (layer_norm ? ", layer" : ", rms"));
  const auto half = [](const at::Tensor& tensor) { return tensor.to(at::kBFloat16); };
  const at::Tensor x = half(at::randn({rows, columns}) * 2 + 0.5);
  const at::Tensor dy = half(at::randn({rows, columns}));
  const at::Tensor residual = layer_norm ? half(at::randn({rows, columns})) : at::Tensor();
  const at::Tensor weight = half(at::rand({columns}) + 0.5);
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor mean = layer_norm ? wide.mean(1, true) : at::zeros({rows, 1}, at::kDouble);
  const at::Tensor rstd = ((wide - mean).square().mean(1, true) + 1e-5).rsqrt();
  const at::Tensor normal = (wide - mean) * rstd;
  const at::Tensor scaled = dy.to(at::kDouble) * weight.to(at::kDouble);
  at::Tensor back = scaled - normal * (scaled * normal).mean(1, true);
  if (layer_norm) back = back - scaled.mean(1, true);
  at::Tensor dx = back * rstd;
  if (residual.defined()) dx = dx + residual.to(at::kDouble);
  const at::Tensor dweight = (dy.to(at::kDouble) * normal).sum(0) + 1;
  const at::Tensor dbias = dy.to(at::kDouble).sum(0) + 1;

  const auto run = [&] {
    const at::Tensor own_weight = to_gpu(at::ones({columns}));
    const at::Tensor own_bias = layer_norm ? to_gpu(at::ones({columns})) : at::Tensor();
    const at::Tensor own_mean = layer_norm ? to_gpu(mean.to(at::kFloat)) : at::Tensor();
    const at::Tensor found = backward_of({.dy = to_gpu(dy),
                                          .x = to_gpu(x),
                                          .mean = own_mean,
                                          .rstd = to_gpu(rstd.to(at::kFloat)),
                                          .weight = to_gpu(weight),
                                          .residual = to_gpu(residual),
                                          .dweight = own_weight,
                                          .dbias = own_bias});
    return std::vector<at::Tensor>{found, own_weight, own_bias};
  };
  const auto found = run();
  ASSERT_TRUE(found[0].defined());
  EXPECT_LT(relative(found[0], dx), 4e-3);  // rounded to bf16 once
  EXPECT_LT(relative(found[1], dweight), 1e-5);
  if (layer_norm) {
    EXPECT_LT(relative(found[2], dbias), 1e-5);
  }
  const auto again = run();
  EXPECT_TRUE(at::equal(found[0], again[0]));
  EXPECT_TRUE(at::equal(found[1], again[1]));
  EXPECT_TRUE(same_bits(found[2], again[2]));
}

void check_forward(int64_t rows, int64_t columns, NormKind kind) {
  const bool is_layer = kind == NormKind::kLayer;
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << (is_layer ? ", layer" : ", rms"));
  const auto half = [](const at::Tensor& tensor) { return tensor.to(at::kBFloat16); };
  const at::Tensor x = half(at::randn({rows, columns}) + 30);  // most digits are the mean's
  const at::Tensor weight = half(at::rand({columns}) + 0.5);
  const at::Tensor bias = is_layer ? half(at::randn({columns})) : at::Tensor();
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor mean = is_layer ? wide.mean(1, true) : at::zeros({rows, 1}, at::kDouble);
  const at::Tensor rstd = ((wide - mean).square().mean(1, true) + 1e-5).rsqrt();
  at::Tensor y = (wide - mean) * rstd * weight.to(at::kDouble);
  if (is_layer) y = y + bias.to(at::kDouble);
  const NormResult found =
      norm_forward_in_one_pass(kind, to_gpu(x), to_gpu(weight), to_gpu(bias), 1e-5);
  ASSERT_TRUE(found.y.defined());
  EXPECT_LT(relative(found.y, y), 4e-3);
  EXPECT_LT(relative(found.rstd, rstd), 1e-5);
  EXPECT_EQ(found.mean.defined(), is_layer);
  if (is_layer) {
    EXPECT_LT(relative(found.mean, mean), 1e-6);
  }
}

// On both sides of where a thread gets one more vector of a row, or the row one more warp.
constexpr int64_t kWidths[] = {8,     248,   256,   264,   512,   520,   760,  768,
                               1'024, 1'032, 1'536, 2'048, 2'056, 4'096, 8'192};
// Teams without a row, and more rows than all blocks take at once; of wide rows a block takes few.
std::vector<int64_t> row_counts(int64_t columns) {
  return {1, 3, 13, (columns > 1'024 ? 2 : 8) * test_gpu().blocks_most + 5};
}

TEST_F(GpuNorm, ForwardEqualsItsFormula) {
  for (const int64_t columns : kWidths) {
    for (const int64_t rows : row_counts(columns)) {
      check_forward(rows, columns, NormKind::kLayer);
      check_forward(rows, columns, NormKind::kRms);
    }
  }
}

TEST_F(GpuNorm, BackwardEqualsItsFormula) {
  for (const int64_t columns : kWidths) {
    for (const int64_t rows : row_counts(columns)) {
      check_norm(rows, columns, /*layer_norm=*/true);
      check_norm(rows, columns, /*layer_norm=*/false);
    }
  }
}

// Weights are views of a flat buffer, and may begin anywhere in it.
TEST_F(GpuNorm, LeavesWhatIsNotAlignedToAten) {
  const at::Tensor x = to_gpu(at::ones({4, 16}, at::kBFloat16));
  const at::Tensor row = to_gpu(at::ones({16}, at::kBFloat16));
  const at::Tensor odd = on_gpu(at::ones({16}, at::kBFloat16), 1);
  const at::Tensor odd_rows = on_gpu(at::ones({4 * 16}, at::kBFloat16), 1).view({4, 16});
  const auto forward = [](const at::Tensor& rows, const at::Tensor& weight,
                          const at::Tensor& bias) {
    return norm_forward_in_one_pass(NormKind::kLayer, rows, weight, bias, 1e-5).y.defined();
  };
  EXPECT_TRUE(forward(x, row, row));
  EXPECT_FALSE(forward(odd_rows, row, row));
  EXPECT_FALSE(forward(x, odd, row));
  EXPECT_FALSE(forward(x, row, odd));
  const at::Tensor statistic = to_gpu(at::ones({4, 1}));
  const auto backward = [&](const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& weight,
                            const at::Tensor& residual) {
    // Gradients may be anywhere.
    const at::Tensor sums = on_gpu(at::ones({16}), 1);
    return backward_of({.dy = dy,
                        .x = rows,
                        .mean = statistic,
                        .rstd = statistic,
                        .weight = weight,
                        .residual = residual,
                        .dweight = sums,
                        .dbias = sums})
        .defined();
  };
  EXPECT_TRUE(backward(x, x, row, x));
  EXPECT_TRUE(backward(x, x, row, {}));
  EXPECT_FALSE(backward(odd_rows, x, row, x));
  EXPECT_FALSE(backward(x, odd_rows, row, x));
  EXPECT_FALSE(backward(x, x, odd, x));
  EXPECT_FALSE(backward(x, x, row, odd_rows));
}

TEST_F(GpuNorm, LeavesOtherShapesAndTypesToAten) {
  const auto half = at::TensorOptions().device(test_gpu().device).dtype(at::kBFloat16);
  const auto wide = at::TensorOptions().device(test_gpu().device);
  for (const auto& [columns, options] :
       {std::pair<int64_t, at::TensorOptions>{12, half}, {16, wide}}) {
    const at::Tensor rows = at::ones({4, columns}, options);
    const at::Tensor row = at::ones({columns}, options);
    const at::Tensor sums = at::ones({columns}, wide);
    const at::Tensor rstd = at::ones({4, 1}, wide);
    EXPECT_FALSE(backward_of({.dy = rows,
                              .x = rows,
                              .mean = at::Tensor(),
                              .rstd = rstd,
                              .weight = row,
                              .residual = rows,
                              .dweight = sums,
                              .dbias = at::Tensor()})
                     .defined());
  }
}

}  // namespace
}  // namespace leeway
