// Stands in for src/kernels/cuda_language.h, in C++.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>
#include <tuple>

#include "kernels/bf16.h"

namespace leeway::cuda {

// Few, so that small tests have more tiles than blocks.
inline constexpr int64_t kBlocksMost = 8;
inline constexpr int64_t kPartsMost = 3;

struct Grid {
  dim3 blocks;
  dim3 threads;
  cudaStream_t stream = nullptr;
  unsigned shared_bytes = 0;
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, const Arguments&... arguments) {
  const std::tuple<Parameters...> held(arguments...);
  emulation::run_grid(
      {.blocks = grid.blocks, .threads = grid.threads, .shared_bytes = grid.shared_bytes},
      [&] { std::apply(kernel, held); });
}

template <class Element>
Element* dynamic_shared() {
  return static_cast<Element*>(emulation::dynamic_shared());
}

inline float power_of_two(float x) {
  const float y = exp2f(x);
  return y < FLT_MIN ? 0 : y;
}

inline float reciprocal(float x) { return 1 / x; }

inline uint32_t bf16_pair(float first, float second) {
  return bf16_of(first) | uint32_t{bf16_of(second)} << 16U;
}

}  // namespace leeway::cuda
