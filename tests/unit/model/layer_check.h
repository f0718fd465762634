// Compares a layer's forward and backward with a plain formula, its autograd and its numeric
// differences. Shared by the layer tests.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "model/shape.h"

namespace leeway {

using Tensors = std::vector<at::Tensor>;

// Standard normal values, determined by the name and the sizes, so that failures are reproducible.
at::Tensor random_tensor(const std::string& name, at::IntArrayRef sizes,
                         at::ScalarType dtype = at::kDouble);
at::Tensor random_ids(const std::string& name, at::IntArrayRef sizes, int64_t count);

// |a - b| / |b|, in fp64; NaN anywhere gives NaN, which fails every comparison.
double relative_distance(const at::Tensor& a, const at::Tensor& b);

struct LayerCase {
  std::string what;
  Tensors inputs;  // fp64: activations and weights, everything that has a gradient
  std::function<at::Tensor(const Tensors&)> formula;
  std::function<at::Tensor(const Tensors&)> forward;
  // The gradient of every input, from buffers that it adds to (see filled_buffer).
  std::function<Tensors(const Tensors&, const at::Tensor& dy)> backward;
};

// fp64 against formula, autograd and numeric differences; fp32 and bf16 (which the fast kernels do
// not support, so this tests the ATen path) against the formula in fp64.
void check_layer(const LayerCase& layer);

// A gradient buffer that is not zero: taken_back() catches a backward that overwrites instead of
// adding. bf16 weights have fp32 gradients, as in a stage.
at::Tensor filled_buffer(const at::Tensor& weight);
at::Tensor taken_back(const at::Tensor& buffer);

// Microbatches of odd sizes.
struct BatchSize {
  int64_t batch = 1;
  int64_t time = 1;
  int64_t tokens() const { return batch * time; }
};
inline const std::vector<BatchSize> kBatchSizes = {{1, 1}, {1, 17}, {2, 5}, {3, 16}, {3, 1}};

// Small models in which no size is a multiple of eight.
ModelShape small_llama();
ModelShape small_gpt2();

}  // namespace leeway
