// Merges on a GPU, in fp32. Raw pointers: nvcc sees no LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/subset.h"

namespace leeway {

// What both merges have. `sums` is [drift, correction], `scratch` has merge_scratch() numbers.
struct MergeOutput {
  float* weights = nullptr;
  void* compute = nullptr;  // null: there is none
  bool compute_is_bf16 = false;
  double* scratch = nullptr;
  double* sums = nullptr;
  cudaStream_t stream = nullptr;
};
int64_t merge_scratch(int64_t count);

// As MergeConstants and MergeBlock in kernels/round_loops.h.
struct WeightsMerge {
  bool keeps_steps = false;
  float ema_keep = 0;
  float ema_share = 0;
  float outer_rate = 1;
  float outer_momentum = 0;
  const float* mean = nullptr;
  const float* sent = nullptr;
  float* ema = nullptr;
  float* anchor = nullptr;
  float* outer = nullptr;
};
void merge_weights_cuda(const Subset& subset, const WeightsMerge& merge, const MergeOutput& output);

// As StepsConstants and StepsBlock.
struct StepsMerge {
  bool has_own = false;
  float smoothing = 0;
  float gain = 0;
  float gain_keep = 0;
  float gain_share = 0;
  float* common = nullptr;
  float* flight = nullptr;
  float* pending = nullptr;
  float* momentum = nullptr;
};
// `own` is null if there is none.
struct DecodedSteps {
  StepsMerge merge;
  const float* answer = nullptr;
  const float* own = nullptr;
};
void merge_steps_cuda(const Subset& subset, const DecodedSteps& steps, const MergeOutput& output);

// The same with ternary blocks (kernels/wire_blocks.h), of consecutive coordinates.
struct TernarySteps {
  StepsMerge merge;
  const uint8_t* answer = nullptr;
  const uint8_t* own = nullptr;
};
void merge_ternary_cuda(const Subset& subset, const TernarySteps& steps, const MergeOutput& output);

}  // namespace leeway
