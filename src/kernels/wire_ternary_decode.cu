// Ternary blocks (kernels/wire_loops.h) as numbers again: a warp has a block.
#include "kernels/cuda_ternary.h"
#include "kernels/wire_cuda.h"

namespace leeway {
namespace {

using cuda::kNumbers;

constexpr int64_t kWarps = cuda::kThreads / cuda::kWarp;

template <bool kWhole>
__device__ void decode_block(const uint8_t* encoded, int numbers, float* values) {
  const cuda::ReadBlock<cuda::kWarp, kWhole> block(encoded, numbers);
  block.for_digits([&](int i, uint32_t digit) {
    if (i < (kWhole ? kNumbers : numbers)) values[i] = cuda::ternary_value(digit, block.scale);
  });
}

__global__ void __launch_bounds__(cuda::kThreads)
    decode(const uint8_t* __restrict__ encoded, int64_t count, float* __restrict__ values) {
  int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  for (; block < cuda::wire_blocks_of(count); block += int64_t{gridDim.x} * kWarps) {
    const int numbers = cuda::numbers_in(block, count);
    const uint8_t* const from = encoded + block * cuda::kBlockBytes;
    float* const to = values + block * kNumbers;
    numbers == kNumbers ? decode_block<true>(from, numbers, to)
                        : decode_block<false>(from, numbers, to);
  }
}

}  // namespace

void decode_ternary_cuda(const uint8_t* encoded, int64_t count, float* values,
                         cudaStream_t stream) {
  if (count == 0) return;
  const int64_t blocks = cuda::blocks_for((cuda::wire_blocks_of(count) + kWarps - 1) / kWarps);
  cuda::launch(decode, {static_cast<unsigned>(blocks), cuda::kThreads, stream}, encoded, count,
               values);
}

}  // namespace leeway
