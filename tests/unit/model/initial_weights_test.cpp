#include "model/initial_weights.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "layer_check.h"

namespace leeway {
namespace {

ModelShape wide(ModelShape shape) {  // enough values for an accurate deviation
  shape.width = 12 * shape.heads;
  shape.hidden = 190;
  shape.vocabulary = 401;
  return shape;
}

std::map<std::string, at::Tensor> filled(const ModelShape& shape, int64_t stages, uint64_t seed,
                                         at::ScalarType dtype = at::kFloat) {
  std::map<std::string, at::Tensor> named;
  for (const StageSlice& slice : cut_into_stages(shape, stages)) {
    const ParameterLayout layout = slice_layout(shape, slice);
    const at::Tensor flat = at::empty({parameter_count(layout)}, dtype);
    fill_initial_weights(flat, shape, layout, seed);
    for (const Parameter& p : layout) named[p.name] = flat.narrow(0, p.offset, p.count());
  }
  return named;
}

void expect_equal(const std::map<std::string, at::Tensor>& a,
                  const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

TEST(InitialWeights, AreTheSameInEveryCut) {
  for (const ModelShape& shape : {small_llama(), small_gpt2()}) {
    for (const int64_t stages : {2, 3, 5})
      expect_equal(filled(shape, 1, 9), filled(shape, stages, 9));
  }
}

TEST(InitialWeights, AreTheSameForAnyNumberOfThreads) {
  const ModelShape shape = wide(small_llama());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = filled(shape, 1, 9);
  at::set_num_threads(2);
  const auto two = filled(shape, 1, 9);
  at::set_num_threads(before);
  expect_equal(one, two);
}

TEST(InitialWeights, AreTheSameInFp64AndFp32) {
  const auto narrow = filled(small_gpt2(), 1, 9);
  for (const auto& [name, tensor] : filled(small_gpt2(), 1, 9, at::kDouble)) {
    EXPECT_TRUE(at::equal(tensor, narrow.at(name).to(at::kDouble))) << name;
  }
}

TEST(InitialWeights, HaveTheRightDeviation) {
  for (const ModelShape& shape : {wide(small_llama()), wide(small_gpt2())}) {
    const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers));
    for (const auto& [name, tensor] : filled(shape, 1, 3)) {
      if (name.ends_with(".bias")) {
        EXPECT_TRUE(at::equal(tensor, at::zeros_like(tensor))) << name;
      } else if (name.find("norm") != std::string::npos) {
        EXPECT_TRUE(at::equal(tensor, at::ones_like(tensor))) << name;
      } else {
        const bool writes = name.ends_with("out.weight") || name.ends_with("down.weight");
        const double expected = writes ? residual : 0.02;
        const double count = static_cast<double>(tensor.numel());
        // Five standard errors, of the deviation and of the mean.
        EXPECT_NEAR(tensor.std().item<double>(), expected, 5 * expected / std::sqrt(2 * count))
            << name;
        EXPECT_NEAR(tensor.mean().item<double>(), 0, 5 * expected / std::sqrt(count)) << name;
      }
    }
  }
}

TEST(InitialWeights, DifferBySeedAndByName) {
  const auto a = filled(small_llama(), 1, 1);
  const auto b = filled(small_llama(), 1, 2);
  EXPECT_FALSE(at::equal(a.at("head.weight"), b.at("head.weight")));
  EXPECT_FALSE(at::equal(a.at("layers.0.mlp.up.weight"), a.at("layers.1.mlp.up.weight")));
  EXPECT_FALSE(at::equal(a.at("layers.0.mlp.up.weight"), a.at("layers.0.mlp.gate.weight")));
}

}  // namespace
}  // namespace leeway
