// Means on a GPU, in fp32. Raw pointers: nvcc sees no LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/simd.h"

namespace leeway {

// Where the parts of a mean are: a short list travels with the launch, a long one is stacked.
struct MeanParts {
  static constexpr int64_t kListed = 64;

  int64_t parts = 0;
  int64_t count = 0;  // numbers in each
  const float* listed[kListed] = {};
  const float* stacked = nullptr;  // one after the other; also null if there are no numbers

  LEEWAY_ON_DEVICE constexpr bool are_listed() const { return parts <= kListed; }
};
void mean_cuda(const MeanParts& parts, float* mean, cudaStream_t stream);

// `sums` is FiniteMean's; `scratch` has finite_mean_scratch() numbers.
struct FiniteMeanOutput {
  float* mean = nullptr;
  float if_none = 0;
  double* scratch = nullptr;
  double* sums = nullptr;
  cudaStream_t stream = nullptr;
};
int64_t finite_mean_scratch(int64_t count);
void mean_of_finite_cuda(const MeanParts& parts, const FiniteMeanOutput& output);

}  // namespace leeway
