// The emulation itself: that it does what a GPU does, and that it finds what a GPU would not say.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "../gpu/kernels/gpu.h"
#include "kernels/cuda_device.h"

namespace leeway {
namespace {

using cuda::kThreads;
using cuda::kWarp;
using cuda::launch;

__global__ void number_threads(int* numbers) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  numbers[block * blockDim.x * blockDim.y + thread] += static_cast<int>(thread);
}

TEST(Emulation, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> numbers(6 * 80);
  launch(number_threads, {dim3(2, 3), dim3(8, 10)}, numbers.data());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i % 80);
}

__global__ void shuffles(int* numbers) {
  const int own = static_cast<int>(threadIdx.x);
  int* const to = numbers + 5 * own;
  to[0] = __shfl_sync(~0U, own, 3, 16);
  to[1] = __shfl_xor_sync(~0U, own, 1);
  to[2] = __shfl_down_sync(~0U, own, 30U);
  to[3] = static_cast<int>(__reduce_max_sync(~0U, threadIdx.x));
  to[4] = static_cast<int>(__ballot_sync(~0U, own == 40));
}

TEST(Emulation, LanesHearEachOther) {
  std::vector<int> numbers(5 * 64);
  launch(shuffles, {1, 64}, numbers.data());
  for (int own = 0; own < 64; ++own) {
    const int* const found = numbers.data() + 5 * own;
    EXPECT_EQ(found[0], own / 16 * 16 + 3);
    EXPECT_EQ(found[1], own ^ 1);
    EXPECT_EQ(found[2], own % kWarp < 2 ? own + 30 : own);
    EXPECT_EQ(found[3], own / kWarp * kWarp + kWarp - 1);
    EXPECT_EQ(found[4], own / kWarp << 8) << "the eighth lane of the second warp";
  }
}

// Each thread takes what another has put there; if it is its own turn too early, something else.
template <bool kWaits>
__global__ void turn_around(const int* from, int* to) {
  __shared__ int held[kThreads];
  held[threadIdx.x] = from[threadIdx.x];
  if (kWaits) __syncthreads();
  to[threadIdx.x] = held[kThreads - 1 - threadIdx.x];
}

template <bool kWaits>
std::vector<int> turned_around(int first) {
  std::vector<int> from(kThreads);
  std::iota(from.begin(), from.end(), first);
  std::vector<int> to(kThreads);
  launch(turn_around<kWaits>, {1, kThreads}, from.data(), to.data());
  return to;
}

TEST(Emulation, AMissingBarrierGivesOtherNumbers) {
  std::vector<int> expected(kThreads);
  std::iota(expected.rbegin(), expected.rend(), 1000);
  EXPECT_EQ(turned_around<true>(1000), expected);
  turned_around<false>(0);
  EXPECT_NE(turned_around<false>(1000), expected);
}

__global__ void count_and_end(int* counts) {
  if (threadIdx.x >= kThreads / 2) return;  // those who have ended are not waited for
  counts[threadIdx.x] = __syncthreads_count(threadIdx.x % 2 == 0);
}

TEST(Emulation, ThreadsThatHaveEndedAreNotWaitedFor) {
  std::vector<int> counts(kThreads / 2);
  launch(count_and_end, {1, kThreads}, counts.data());
  EXPECT_EQ(counts, std::vector<int>(kThreads / 2, kThreads / 4));
}

__global__ void lane_is_gone() {
  if (threadIdx.x == 5) return;
  __shfl_xor_sync(~0U, 1, 1);
}
__global__ void lane_waits_elsewhere() {
  if (threadIdx.x == 5) __syncthreads();
  __syncwarp();
}
__global__ void barriers_in_branches() {
  if (threadIdx.x < kWarp) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void lane_beyond_the_mask() { __shfl_xor_sync(0xffffU, 1, 1); }
__global__ void reads_beyond_the_mask() {
  if (threadIdx.x < 16) __shfl_sync(0xffffU, 1, 16);
}
__global__ void misaligned_vector(const float* numbers) { cuda::load<4>(numbers + threadIdx.x, 4); }
__global__ void beyond_dynamic_memory() { cuda::dynamic_shared<int>()[threadIdx.x] = 1; }
__global__ void one_too_many(int* numbers, int count) {
  if (static_cast<int>(threadIdx.x) <= count) numbers[threadIdx.x] = 1;
}

TEST(EmulationDeathTest, FindsWhatAGpuWouldNotSay) {
  EXPECT_DEATH(launch(lane_is_gone, {1, kWarp}), "not all lanes of the mask 0xffffffff come to");
  EXPECT_DEATH(launch(lane_waits_elsewhere, {1, kWarp}), "not all lanes of the mask");
  EXPECT_DEATH(launch(barriers_in_branches, {1, kThreads}), "wait at different barriers");
  EXPECT_DEATH(launch(lane_beyond_the_mask, {1, kWarp}), "that the mask 0xffff leaves out");
  EXPECT_DEATH(launch(reads_beyond_the_mask, {1, kWarp}), "reads from one that its mask");
  EXPECT_DEATH(launch(beyond_dynamic_memory, {1, kWarp, nullptr, 4 * (kWarp - 1)}),
               "past the end of its dynamic shared memory");
  const at::Tensor numbers = at::empty({8}, at::TensorOptions(test_gpu().device));
  EXPECT_DEATH(launch(misaligned_vector, {1, 2}, numbers.const_data_ptr<float>()), "misaligned");
}

TEST(EmulationDeathTest, FindsWritesBeyondATensor) {
  const auto write = [](int count) {
    const at::Tensor numbers = at::empty({8}, at::TensorOptions(test_gpu().device).dtype(at::kInt));
    launch(one_too_many, {1, kWarp}, numbers.mutable_data_ptr<int>(), count);
  };
  write(7);
  EXPECT_DEATH(write(8), "past the end of a tensor's memory");
}

}  // namespace
}  // namespace leeway
