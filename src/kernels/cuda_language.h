// What only nvcc understands. The rest of a .cu file is C++, and tests/emulation, which has another
// file of this name, compiles it for the CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace leeway::cuda {

// At most this many blocks: two waves of 8 on each of 132 processors. It does not depend on the
// GPU, and neither does the order of sums.
inline constexpr int64_t kBlocksMost = 2112;
// Of blocks that add up many columns each, and write all of these sums: two on each processor.
inline constexpr int64_t kPartsMost = 264;

struct Grid {
  dim3 blocks;
  dim3 threads;  // in each
  cudaStream_t stream = nullptr;
  unsigned shared_bytes = 0;  // of dynamic_shared()
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, const Arguments&... arguments) {
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, grid.stream>>>(arguments...);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("a kernel did not start: ") + cudaGetErrorString(status));
}

// Memory of the block, as much as the launch says.
template <class Element>
__device__ Element* dynamic_shared() {
  extern __shared__ uint4 storage[];
  return reinterpret_cast<Element*>(storage);
}

// 2^x within two units in the last place, 0 below 2^-126.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x within one unit in the last place; 0 for an infinity.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Both rounded to bf16, to nearest even, the first one in the low bits.
__device__ inline uint32_t bf16_pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

}  // namespace leeway::cuda
