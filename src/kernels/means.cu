#include "kernels/cuda_device.h"
#include "kernels/means_cuda.h"

namespace leeway {
namespace {

using cuda::Sums;

constexpr int64_t kFirstValue = 2;  // FiniteMean::kFirstValue

__device__ const float* part_of(const MeanParts& parts, int64_t part) {
  return parts.are_listed() ? parts.listed[part] : parts.stacked + part * parts.count;
}

// Those parts that count: all, or those that a first pass has found finite.
struct Counted {
  const double* finite = nullptr;  // null: all
  int64_t number = 0;
  float if_none = 0;

  __device__ bool has(int64_t part) const { return finite == nullptr || finite[part] != 0; }
};

// Adds in fp64, in the order of the parts, as mean_block() in kernels/round_loops.cpp.
template <int kWidth>
__device__ cuda::Vector<float, kWidth> mean_vector(const MeanParts& parts, const Counted& counted,
                                                   int64_t position, int some) {
  cuda::Vector<float, kWidth> mean;
  double sums[kWidth] = {};
#pragma unroll 4
  for (int64_t part = 0; part < parts.parts; ++part) {
    if (!counted.has(part)) continue;
    const auto values = cuda::load<kWidth>(part_of(parts, part) + position, some);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sums[e] += static_cast<double>(values.at[e]);
  }
  const auto divisor = static_cast<double>(counted.number);
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    mean.at[e] = counted.number == 0 ? counted.if_none : static_cast<float>(sums[e] / divisor);
  }
  return mean;
}

// Adds |mean|^2 and the sum over the parts of |part - mean|^2. `finite`: where to write 0 for parts
// with values that are not; whoever does writes the same, so the order does not matter.
template <int kWidth>
__device__ void add_sums(const MeanParts& parts, const Counted& counted,
                         const cuda::Vector<float, kWidth>& mean, int64_t position, int some,
                         double* finite, Sums* sums) {
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    const double size = e < some ? static_cast<double>(mean.at[e]) : 0.0;
    sums->first += size * size;
  }
#pragma unroll 4
  for (int64_t part = 0; part < parts.parts; ++part) {
    if (!counted.has(part)) continue;
    const auto values = cuda::load<kWidth>(part_of(parts, part) + position, some);
    bool all_finite = true;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (e >= some) continue;
      all_finite = all_finite && isfinite(values.at[e]);
      const double distance = static_cast<double>(values.at[e]) - static_cast<double>(mean.at[e]);
      sums->second += distance * distance;
    }
    if (finite != nullptr && !all_finite) finite[part] = 0;
  }
}

template <int kWidth>
__device__ void mean_tiles(const MeanParts& parts, const Counted& counted,
                           const FiniteMeanOutput& output, double* finite) {
  Sums own;
  const int64_t stride = int64_t{gridDim.x} * cuda::kThreads * kWidth;
  int64_t position = (int64_t{blockIdx.x} * cuda::kThreads + threadIdx.x) * kWidth;
  for (; position < parts.count; position += stride) {
    const int some = cuda::some_of<kWidth>(position, parts.count);
    const auto mean = mean_vector<kWidth>(parts, counted, position, some);
    cuda::store(mean, some, output.mean + position);
    if (output.sums == nullptr) continue;
    add_sums<kWidth>(parts, counted, mean, position, some, finite, &own);
  }
  if (output.sums == nullptr) return;
  const Sums totals = cuda::block_totals(own);
  if (threadIdx.x != 0) return;
  output.scratch[2 * blockIdx.x] = totals.first;
  output.scratch[2 * blockIdx.x + 1] = totals.second;
}

// All threads of a block call it.
__device__ int64_t finite_parts(const MeanParts& parts, const double* finite) {
  int64_t number = 0;
  for (int64_t begin = 0; begin < parts.parts; begin += cuda::kThreads) {
    const int64_t part = begin + threadIdx.x;
    number += __syncthreads_count(part < parts.parts && finite[part] != 0);
  }
  return number;
}

__global__ void __launch_bounds__(cuda::kThreads) call_all_finite(int64_t parts, double* finite) {
  for (int64_t part = threadIdx.x; part < parts; part += cuda::kThreads) finite[part] = 1;
}

// The first pass takes all parts as finite, and finds those that are not.
template <int kWidth>
__global__ void __launch_bounds__(cuda::kThreads)
    mean_of_all(const __grid_constant__ MeanParts parts, const FiniteMeanOutput output) {
  double* const finite = output.sums == nullptr ? nullptr : output.sums + kFirstValue;
  mean_tiles<kWidth>(parts, {.number = parts.parts}, output, finite);
}

// The second pass makes it anew without them. Mostly there are none, and it does nothing.
template <int kWidth>
__global__ void __launch_bounds__(cuda::kThreads)
    mean_of_rest(const __grid_constant__ MeanParts parts, const FiniteMeanOutput output) {
  const double* const finite = output.sums + kFirstValue;
  const int64_t number = finite_parts(parts, finite);
  if (number == parts.parts) return;
  mean_tiles<kWidth>(parts, {.finite = finite, .number = number, .if_none = output.if_none}, output,
                     nullptr);
}

__global__ void __launch_bounds__(cuda::kThreads)
    add_blocks(const __grid_constant__ MeanParts parts, const FiniteMeanOutput output,
               int64_t blocks) {
  const int64_t number = finite_parts(parts, output.sums + kFirstValue);
  const Sums totals = cuda::grid_totals(output.scratch, blocks);
  if (threadIdx.x != 0) return;
  output.sums[0] = totals.first;
  output.sums[1] = number == 0 ? 0 : totals.second / static_cast<double>(number);
}

template <int kWidth>
int64_t blocks_of(int64_t count) {
  const int64_t positions = int64_t{cuda::kThreads} * kWidth;
  return cuda::blocks_for((count + positions - 1) / positions);
}

template <int kWidth>
void launch_passes(const MeanParts& parts, const FiniteMeanOutput& output) {
  const int64_t blocks = blocks_of<kWidth>(parts.count);
  const cuda::Grid grid = {static_cast<unsigned>(blocks), cuda::kThreads, output.stream};
  if (blocks > 0) cuda::launch(mean_of_all<kWidth>, grid, parts, output);
  if (output.sums == nullptr) return;
  if (blocks > 0) cuda::launch(mean_of_rest<kWidth>, grid, parts, output);
  cuda::launch(add_blocks, {1, cuda::kThreads, output.stream}, parts, output, blocks);
}

void launch_widest(const MeanParts& parts, const FiniteMeanOutput& output) {
  bool wide = cuda::is_aligned(output.mean, 16);
  if (!parts.are_listed()) {
    wide = wide && cuda::is_aligned(parts.stacked, 16) && parts.count % 4 == 0;
  } else {
    for (int64_t i = 0; i < parts.parts; ++i) wide = wide && cuda::is_aligned(parts.listed[i], 16);
  }
  wide ? launch_passes<4>(parts, output) : launch_passes<1>(parts, output);
}

}  // namespace

int64_t finite_mean_scratch(int64_t count) { return 2 * blocks_of<1>(count); }

void mean_cuda(const MeanParts& parts, float* mean, cudaStream_t stream) {
  launch_widest(parts, {.mean = mean, .stream = stream});
}

void mean_of_finite_cuda(const MeanParts& parts, const FiniteMeanOutput& output) {
  cuda::launch(call_all_finite, {1, cuda::kThreads, output.stream}, parts.parts,
               output.sums + kFirstValue);
  launch_widest(parts, output);
}

}  // namespace leeway
