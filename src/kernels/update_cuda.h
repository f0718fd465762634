// Launchers of update.cu, norms.cu and gate.cu: plain pointers into a GPU's memory, for a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/update_loops.h"

namespace leeway::cuda {

enum class CopyType { kNone, kFloat, kBf16 };

// Where the buffers of a pass begin. Null where the pass has none.
struct PassPointers {
  const int64_t* pieces = nullptr;  // UpdatePiece, four numbers each
  int64_t piece_count = 0;
  float* weights = nullptr;
  const float* gradients = nullptr;
  void* momentum = nullptr;  // fp32 or bf16, and so the variance
  void* variance = nullptr;
  bool half_moments = false;
  uint64_t rounding = 0;  // as in PassTensors
  void* compute = nullptr;
  CopyType copy = CopyType::kNone;
  bool preview = false;
  const double* gate = nullptr;
};

void element_pass(const StepConstants& constants, const PassPointers& p, cudaStream_t stream);
// Directions in bf16.
void direction_pass(const StepConstants& constants, const PassPointers& p, void* directions,
                    cudaStream_t stream);
void apply_pass(double weight_keep, double step, const PassPointers& p, const void* directions,
                cudaStream_t stream);

// `parts`: offset and count of each; `ends`: by parameter, the part after its last one. `sums`: one
// number per part, scratch.
struct NormPointers {
  const float* values = nullptr;
  const int64_t* parts = nullptr;
  const int64_t* ends = nullptr;
  int64_t part_count = 0;
  int64_t parameter_count = 0;
  double* sums = nullptr;
  double* squares = nullptr;
};
void parameter_norms(const NormPointers& p, cudaStream_t stream);

// total = the sum of (copy - weights)^2.
struct DistancePointers {
  const float* weights = nullptr;
  const void* copy = nullptr;
  bool half = false;  // whether the copy is bf16, else fp32
  int64_t count = 0;
  double* parts = nullptr;  // scratch, [distance_parts(count)]
  double* total = nullptr;
};
int64_t distance_parts(int64_t count);
void squared_distance(const DistancePointers& p, cudaStream_t stream);

struct GatePointers {
  const double* norms = nullptr;
  int64_t norm_count = 0;
  const double* total = nullptr;
  const float* losses = nullptr;
  int64_t loss_count = 0;
  double clip = 0;
  double factor = 1;
  double* gate = nullptr;
};
void set_gate(const GatePointers& p, cudaStream_t stream);

// total = numbers[0] + numbers[1] + ..., in this order.
void sum_in_order(const double* numbers, int64_t count, double* total, cudaStream_t stream);

}  // namespace leeway::cuda
