// Products with a residual and a bias, which cuBLAS adds on a GPU.
#include "kernels/products.h"

#include <tuple>
#include <vector>

#include "gpu.h"

namespace leeway {
namespace {

using GpuProducts = GpuTest;

at::Tensor bf16(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); }

at::Tensor wide(const at::Tensor& t) { return t.cpu().to(at::kDouble); }

TEST_F(GpuProducts, AddABiasAndAResidual) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> shapes = {
      {1, 8, 8}, {7, 24, 40}, {64, 128, 64}, {130, 768, 256}, {1024, 64, 768}};
  for (const auto& [rows, in, out] : shapes) {
    for (const bool has_bias : {true, false}) {
      for (const int64_t skipped : {0, 1, 8}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << in << " to " << out << ", bias "
                                        << has_bias << ", from element " << skipped);
        const at::Tensor x = bf16({rows, in});
        const at::Tensor w = bf16({out, in});
        const at::Tensor bias = has_bias ? bf16({out}) : at::Tensor();
        const at::Tensor onto = bf16({rows, out});
        const at::Tensor onto_there = to_gpu(onto);
        const at::Tensor y = linear_product(to_gpu(x), on_gpu(w.view(-1), skipped).view({out, in}),
                                            on_gpu(bias, skipped), onto_there);
        at::Tensor expected = at::addmm(wide(onto), wide(x), wide(w).t());
        if (has_bias) expected += wide(bias);
        if (onto_there.is_cuda() && skipped != 1) {
          EXPECT_TRUE(product_in_one_pass(to_gpu(x), on_gpu(w.view(-1), skipped).view({out, in}),
                                          to_gpu(bias), onto_there)
                          .defined());
        }
        // Two roundings to bf16 at most, of numbers that may be a few times the result.
        const double error = (wide(y) - expected).abs().max().item<double>();
        EXPECT_LT(error, 0.01 * expected.abs().max().item<double>());
        EXPECT_TRUE(same_bits(onto, onto_there)) << "the residual is kept";
      }
    }
  }
}

TEST_F(GpuProducts, Repeat) {
  const at::Tensor x = to_gpu(bf16({512, 3072}));
  const at::Tensor w = to_gpu(bf16({768, 3072}));
  const at::Tensor onto = to_gpu(bf16({512, 768}));
  const at::Tensor first = linear_product(x, w, {}, onto);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same_bits(first, linear_product(x, w, {}, onto)));
}

}  // namespace
}  // namespace leeway
