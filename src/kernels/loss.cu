// The CUDA twin of loss.cpp: a block has a row of logits in shared memory, so that memory is read
// once and written once; the row's gradient takes its place.
#include <cuda_bf16.h>

#include "kernels/cuda_device.h"
#include "kernels/loss_cuda.h"

namespace leeway::cuda {
namespace {

constexpr int kRowThreads = 1024;
constexpr float kLn2 = 0.6931471805599453F;

// Neighbouring logits that move at once, as fp32 while they are worked on.
template <class T, int kWidth>
struct Logits {
  float at[kWidth];
};

template <int kWidth>
__device__ Logits<float, kWidth> unpacked(const Vector<float, kWidth>& packed) {
  Logits<float, kWidth> logits;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) logits.at[e] = packed.at[e];
  return logits;
}
template <int kWidth>
__device__ Logits<uint16_t, kWidth> unpacked(const Vector<uint16_t, kWidth>& packed) {
  Logits<uint16_t, kWidth> logits;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    logits.at[e] = __uint_as_float(static_cast<uint32_t>(packed.at[e]) << 16U);
  }
  return logits;
}
template <int kWidth>
__device__ Vector<float, kWidth> packed(const Logits<float, kWidth>& logits) {
  Vector<float, kWidth> vector;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) vector.at[e] = logits.at[e];
  return vector;
}
template <int kWidth>
__device__ Vector<uint16_t, kWidth> packed(const Logits<uint16_t, kWidth>& logits) {
  Vector<uint16_t, kWidth> vector;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    vector.at[e] = __bfloat16_as_ushort(__float2bfloat16_rn(logits.at[e]));
  }
  return vector;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Every thread gets the same result, joined in a fixed order.
template <class Join>
__device__ float block_joined(float own, const Join& join) {
  __shared__ float warps[kRowThreads / kWarp];
  __syncthreads();  // the last one's readers are done
  for (int other = kWarp / 2; other > 0; other /= 2) {
    own = join(own, __shfl_xor_sync(~0U, own, other));
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  own = warps[threadIdx.x % kWarp];
  for (int other = kWarp / 2; other > 0; other /= 2) {
    own = join(own, __shfl_xor_sync(~0U, own, other));
  }
  return own;
}

// Columns are counted in vectors of kWidth. kShared: the row is kept in shared memory; else it is
// read again.
template <class T, int kWidth, bool kShared>
__global__ void __launch_bounds__(kRowThreads, 2) cross_entropy_kernel(const LossPointers p) {
  using Packed = Vector<T, kWidth>;
  auto* const row = reinterpret_cast<Packed*>(static_cast<T*>(p.logits) + blockIdx.x * p.columns);
  auto* const kept = kShared ? dynamic_shared<Packed>() : row;
  const int vectors = static_cast<int>(p.columns) / kWidth;
  const int vocabulary = static_cast<int>(p.vocabulary);
  const int target = static_cast<int>(p.targets[blockIdx.x]);

  float own = -INFINITY;
  for (int i = threadIdx.x; i < vectors; i += kRowThreads) {
    const Packed vector = row[i];
    if (kShared) kept[i] = vector;
    const auto logits = unpacked(vector);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (i * kWidth + e < vocabulary) own = fmaxf(own, logits.at[e]);
    }
  }
  const float largest = block_joined(own, Largest());
  const float shift = -largest * kLog2E;
  own = 0;
  for (int i = threadIdx.x; i < vectors; i += kRowThreads) {
    const auto logits = unpacked(kept[i]);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (i * kWidth + e < vocabulary) own += power_of_two(__fmaf_rn(logits.at[e], kLog2E, shift));
    }
  }
  const float sum = block_joined(own, Sum());
  if (threadIdx.x == 0) {
    const float at_target = unpacked(kept[target / kWidth]).at[target % kWidth];
    p.losses[blockIdx.x] = largest + log2f(sum) * kLn2 - at_target;
  }
  if (!p.gradient) return;
  if (!kShared) __syncthreads();  // the target was read before it is replaced
  const float factor = p.share / sum;
  for (int i = threadIdx.x; i < vectors; i += kRowThreads) {
    auto logits = unpacked(kept[i]);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const int column = i * kWidth + e;
      const float probability = power_of_two(__fmaf_rn(logits.at[e], kLog2E, shift)) * factor;
      logits.at[e] = column < vocabulary ? probability : 0;
      if (column == target) logits.at[e] -= p.share;
    }
    row[i] = packed(logits);
  }
}

template <class T, int kWidth>
void launch_rows(const LossPointers& p, cudaStream_t stream) {
  const auto bytes = static_cast<int>(p.columns * sizeof(T));
  const auto rows = static_cast<unsigned>(p.rows);
  int device = 0;
  int most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  constexpr int kStatic = 1024;  // at least what the kernel has besides
  if (bytes > most - kStatic) {
    launch(cross_entropy_kernel<T, kWidth, false>, {rows, kRowThreads, stream}, p);
  } else {
    const auto kernel = cross_entropy_kernel<T, kWidth, true>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    launch(kernel, {rows, kRowThreads, stream, static_cast<unsigned>(bytes)}, p);
  }
}

template <class T>
void launch_widest(const LossPointers& p, cudaStream_t stream) {
  constexpr int kMost = 16 / sizeof(T);
  if (p.columns % kMost == 0 && is_aligned(p.logits, 16)) {
    launch_rows<T, kMost>(p, stream);
  } else {
    launch_rows<T, 1>(p, stream);
  }
}

}  // namespace

void cross_entropy(const LossPointers& p, cudaStream_t stream) {
  p.half ? launch_widest<uint16_t>(p, stream) : launch_widest<float>(p, stream);
}

}  // namespace leeway::cuda
