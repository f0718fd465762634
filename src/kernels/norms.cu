// The CUDA twin of norms.cpp, and that of gate.cpp: small sums, in fixed orders.
#include "kernels/clip.h"
#include "kernels/cuda_device.h"
#include "kernels/gate_fields.h"
#include "kernels/update_cuda.h"

namespace leeway::cuda {
namespace {

// A block's threads add up theirs; then halves are added. The order depends only on the count.
__device__ double block_sum(double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

__global__ void __launch_bounds__(kThreads) part_kernel(const NormPointers p) {
  const int64_t part = blockIdx.x;
  const float* const values = p.values + p.parts[2 * part];
  const int64_t count = p.parts[2 * part + 1];
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const double value = values[i];
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) p.sums[part] = sum;
}

__global__ void __launch_bounds__(kThreads) parameter_kernel(const NormPointers p) {
  const int64_t parameter = blockIdx.x;
  const int64_t begin = parameter == 0 ? 0 : p.ends[parameter - 1];
  double sum = 0;
  for (int64_t part = begin + threadIdx.x; part < p.ends[parameter]; part += kThreads) {
    sum += p.sums[part];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) p.squares[parameter] = sum;
}

// Blocks take numbers in turns.
template <bool kHalf>
__global__ void __launch_bounds__(kThreads) distance_kernel(const DistancePointers p) {
  const auto other = [&](int64_t i) {
    if (!kHalf) return static_cast<const float*>(p.copy)[i];
    const uint32_t bits = static_cast<const uint16_t*>(p.copy)[i];
    return __uint_as_float(bits << 16U);
  };
  double sum = 0;
#pragma unroll 8
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < p.count;
       i += int64_t{gridDim.x} * kThreads) {
    const double difference = other(i) - p.weights[i];
    sum += difference * difference;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = sum;
}

// One thread adds, in order; the others fetch.
__device__ double ordered_sum(const double* numbers, int64_t count) {
  __shared__ double fetched[kThreads];
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kThreads) {
    __syncthreads();
    const int64_t i = begin + threadIdx.x;
    if (i < count) fetched[threadIdx.x] = numbers[i];
    __syncthreads();
    if (threadIdx.x != 0) continue;
    const int64_t length = count - begin < kThreads ? count - begin : kThreads;
    for (int64_t j = 0; j < length; ++j) sum += fetched[j];
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads) gate_kernel(const GatePointers p) {
  const double norm = ordered_sum(p.norms, p.norm_count);
  if (threadIdx.x != 0) return;
  const double total = p.total == nullptr ? norm : *p.total;
  double loss = 0;
  for (int64_t i = 0; i < p.loss_count; ++i) {
    loss += static_cast<double>(p.losses[i]) / static_cast<double>(p.loss_count);
  }
  fill_gate({norm, total, loss, p.clip, p.factor}, p.gate);
}

__global__ void __launch_bounds__(kThreads)
    sum_kernel(const double* numbers, int64_t count, double* total) {
  const double sum = ordered_sum(numbers, count);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

void parameter_norms(const NormPointers& p, cudaStream_t stream) {
  launch(part_kernel, {static_cast<unsigned>(p.part_count), kThreads, stream}, p);
  launch(parameter_kernel, {static_cast<unsigned>(p.parameter_count), kThreads, stream}, p);
}

int64_t distance_parts(int64_t count) { return blocks_for(count / kThreads + 1); }

void squared_distance(const DistancePointers& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(distance_parts(p.count));
  launch(p.half ? distance_kernel<true> : distance_kernel<false>, {blocks, kThreads, stream}, p);
  sum_in_order(p.parts, blocks, p.total, stream);
}

void set_gate(const GatePointers& p, cudaStream_t stream) {
  launch(gate_kernel, {1, kThreads, stream}, p);
}

void sum_in_order(const double* numbers, int64_t count, double* total, cudaStream_t stream) {
  launch(sum_kernel, {1, kThreads, stream}, numbers, count, total);
}

}  // namespace leeway::cuda
