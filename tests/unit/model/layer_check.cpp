#include "layer_check.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/hash.h"
#include "base/rng.h"

namespace leeway {
namespace {

constexpr double kFill = 3.0;
constexpr double kStep =
    1e-5;  // for central differences: the error is about 1e-10 times third derivatives

class Machine : public testing::Environment {
 public:
  void SetUp() override {
    // These tensors are tiny: a second thread only waits. Tests about threads set their own number.
    at::set_num_threads(1);
    // Some CPUs advertise matrix units that may not be used; oneDNN then crashes on bf16 products.
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*replace=*/0);
  }
};
[[maybe_unused]] const testing::Environment* const kMachine =
    testing::AddGlobalTestEnvironment(new Machine);

Tensors to_dtype(const Tensors& tensors, at::ScalarType dtype) {
  Tensors converted;
  for (const at::Tensor& tensor : tensors) converted.push_back(tensor.to(dtype));
  return converted;
}

Tensors autograd_of(const LayerCase& layer, const Tensors& inputs, const at::Tensor& dy) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(true));
  }
  layer.formula(leaves).backward(dy);
  Tensors gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

// d/de of sum(dy * forward(inputs + e direction)) must be gradient . direction.
void check_numeric(const LayerCase& layer, const Tensors& gradients, const at::Tensor& dy) {
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      const std::string name = layer.what + std::to_string(i) + "/" + std::to_string(repeat);
      const at::Tensor direction = random_tensor(name, layer.inputs[i].sizes());
      const auto value_at = [&](double step) {
        Tensors moved = to_dtype(layer.inputs, at::kDouble);
        moved[i] = moved[i] + step * direction;
        return (layer.forward(moved) * dy).sum().item<double>();
      };
      const double numeric = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
      const double exact = (gradients[i] * direction).sum().item<double>();
      const double size = (gradients[i].norm() * direction.norm()).item<double>();
      EXPECT_NEAR(numeric, exact, 1e-7 * size + 1e-9) << layer.what << ", input " << i;
    }
  }
}

void check_dtype(const LayerCase& layer, at::ScalarType dtype, double tolerance) {
  // The formula gets the rounded inputs, so that only the arithmetic differs.
  const Tensors inputs = to_dtype(layer.inputs, dtype);
  const Tensors rounded = to_dtype(inputs, at::kDouble);
  const at::Tensor expected = layer.formula(rounded);
  const at::Tensor dy = random_tensor(layer.what + " dy", expected.sizes()).to(dtype);
  EXPECT_LE(relative_distance(layer.forward(to_dtype(inputs, dtype)), expected), tolerance)
      << layer.what << ", forward in " << c10::toString(dtype);
  const Tensors gradients = layer.backward(to_dtype(inputs, dtype), dy);
  const Tensors wanted = autograd_of(layer, rounded, dy.to(at::kDouble));
  ASSERT_EQ(gradients.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LE(relative_distance(gradients[i], wanted[i]), tolerance)
        << layer.what << ", gradient of input " << i << " in " << c10::toString(dtype);
  }
}

}  // namespace

at::Tensor random_tensor(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor values = at::empty(sizes, at::kDouble);
  const RandomKey key{17, Stream::kWeights, hash_text(name)};
  auto* out = values.mutable_data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    out[i] = random_normal(key, static_cast<uint64_t>(i));
  }
  return values.to(dtype);
}

at::Tensor random_ids(const std::string& name, at::IntArrayRef sizes, int64_t count) {
  const at::Tensor values = at::empty(sizes, at::kLong);
  const RandomKey key{17, Stream::kSampler, hash_text(name)};
  auto* out = values.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    out[i] = static_cast<int64_t>(random_bits(key, static_cast<uint64_t>(i)) %
                                  static_cast<uint64_t>(count));
  }
  return values;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor expected = b.detach().to(at::kDouble);
  const double size = expected.norm().item<double>();
  const double difference = (a.detach().to(at::kDouble) - expected).norm().item<double>();
  return size > 0 ? difference / size : difference;
}

at::Tensor filled_buffer(const at::Tensor& weight) {
  const bool half = weight.scalar_type() == at::kBFloat16;
  return at::full(weight.sizes(), kFill,
                  weight.options().dtype(half ? at::kFloat : weight.scalar_type()));
}

at::Tensor taken_back(const at::Tensor& buffer) { return buffer - kFill; }

void check_layer(const LayerCase& layer) {
  // Everything is exact except the kernels' own rounding: these tolerances are a few thousand ulps.
  check_dtype(layer, at::kDouble, 1e-11);
  check_dtype(layer, at::kFloat, 1e-5);
  check_dtype(layer, at::kBFloat16, 3e-2);
  const at::Tensor dy = random_tensor(layer.what + " dy", layer.formula(layer.inputs).sizes());
  check_numeric(layer, layer.backward(to_dtype(layer.inputs, at::kDouble), dy), dy);
}

ModelShape small_llama() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 5,
          .width = 36,
          .heads = 6,
          .kv_heads = 3,
          .hidden = 29,
          .context = 17,
          .vocabulary = 53};
}

ModelShape small_gpt2() {
  return {.architecture = Architecture::kGpt2,
          .activation = Activation::kGelu,
          .bias = true,
          .layers = 5,
          .width = 21,
          .heads = 3,
          .kv_heads = 3,
          .hidden = 43,
          .context = 17,
          .vocabulary = 53};
}

}  // namespace leeway
