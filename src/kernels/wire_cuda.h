// Blocks of the wire formats on a GPU. Raw pointers: nvcc sees no LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace leeway {

// `threshold`: as in kernels/wire_loops.h.
void encode_ternary_cuda(const float* values, int64_t count, double threshold, uint8_t* encoded,
                         cudaStream_t stream);
void decode_ternary_cuda(const uint8_t* encoded, int64_t count, float* values, cudaStream_t stream);
void encode_int8_cuda(const float* values, int64_t count, uint8_t* encoded, cudaStream_t stream);
// `folded`: the key, as fold() makes it.
void encode_int8_stochastic_cuda(const float* values, int64_t count, uint64_t folded,
                                 uint8_t* encoded, cudaStream_t stream);
void decode_int8_cuda(const uint8_t* encoded, int64_t count, float* values, cudaStream_t stream);
void encode_int4_cuda(const float* values, int64_t count, uint8_t* encoded, cudaStream_t stream);
void decode_int4_cuda(const uint8_t* encoded, int64_t count, float* values, cudaStream_t stream);

// All pointers are to the first of `count` consecutive coordinates.
struct StepsToSend {
  static constexpr int64_t kListed = 3;

  int64_t count = 0;
  const float* weights = nullptr;
  const float* common = nullptr;
  const float* pending = nullptr;  // null: there is no smoothing
  float smoothing = 0;
  float* flight = nullptr;  // null: what is under way is listed
  double threshold = 0;
  int64_t codes = 0;
  const uint8_t* listed[kListed] = {};  // encoded
};
void contribute_ternary_cuda(const StepsToSend& steps, uint8_t* encoded, cudaStream_t stream);

// `sums` is FiniteMean's (kernels/means.h); `scratch` has reduce_scratch() numbers.
struct StepsToAnswer {
  static constexpr int64_t kListed = 4;

  int64_t count = 0;
  int64_t parts = 0;
  const uint8_t* listed[kListed] = {};  // encoded
  float share = 0;
  double threshold = 0;
  float* residual = nullptr;
  double* scratch = nullptr;
  double* sums = nullptr;
};
int64_t reduce_scratch(int64_t count);
void reduce_ternary_cuda(const StepsToAnswer& steps, uint8_t* encoded, cudaStream_t stream);

}  // namespace leeway
