// The twins of merge_loop, follow_loop and steps_loop in kernels/round_loops.cpp: the same
// operations in the same order, each rounded once.
#include <initializer_list>

#include "kernels/bf16.h"
#include "kernels/cuda_ternary.h"
#include "kernels/merges_cuda.h"

namespace leeway {
namespace {

using cuda::Sums;
using cuda::Tile;

template <int kWidth>
using Floats = cuda::Vector<float, kWidth>;

// An array that may not be there: then all its values are 0.
template <int kWidth>
__device__ Floats<kWidth> load_if(const float* array, int64_t offset, int some) {
  if (array == nullptr) return {};
  return cuda::load<kWidth>(array + offset, some);
}

template <int kWidth>
__device__ void store_if(const Floats<kWidth>& values, int some, float* array, int64_t offset) {
  if (array != nullptr) cuda::store(values, some, array + offset);
}

template <int kWidth>
__device__ void store_compute(const Floats<kWidth>& weights, int some, const MergeOutput& output,
                              int64_t offset) {
  if (output.compute == nullptr) return;
  if (!output.compute_is_bf16) {
    return cuda::store(weights, some, static_cast<float*>(output.compute) + offset);
  }
  cuda::Vector<uint16_t, kWidth> rounded;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) rounded.at[e] = bf16_of(weights.at[e]);
  cuda::store(rounded, some, static_cast<uint16_t*>(output.compute) + offset);
}

__device__ void add_square(float value, double* sum) {
  const auto exact = static_cast<double>(value);
  *sum += exact * exact;
}

// One weight with what belongs to it.
struct WeightState {
  float weight = 0;
  float ema = 0;
  float anchor = 0;
  float outer = 0;
};

__device__ WeightState merged_weight(const WeightsMerge& merge, const WeightState& old, float mean,
                                     float sent, Sums* sums) {
  if (!isfinite(mean)) return old;
  WeightState state = old;
  const bool was_sent = merge.sent != nullptr;
  const float step = was_sent ? old.weight - sent : 0.0F;
  float target = mean;
  if (merge.anchor != nullptr) {
    if (was_sent) {
      const float distance = old.anchor - target;
      state.outer = merge.outer_momentum * old.outer + distance;
      target = old.anchor - merge.outer_rate * (distance + merge.outer_momentum * state.outer);
    } else {
      state.outer = 0;
    }
    state.anchor = target;
  }
  float added = step;
  if (merge.ema != nullptr) {
    // Without `sent`, u = 0: a product alone, as adding a zero would change the sign of one.
    state.ema = merge.ema_keep * old.ema;
    if (was_sent) state.ema = state.ema + merge.ema_share * step;
    added = state.ema;
  }
  state.weight = was_sent && merge.keeps_steps ? target + added : target;
  add_square(step, &sums->first);
  add_square(state.weight - old.weight, &sums->second);
  return state;
}

template <int kWidth>
__device__ void merge_vector(const WeightsMerge& merge, const MergeOutput& output, int64_t position,
                             int64_t offset, int some, Sums* sums) {
  const Floats<kWidth> mean = cuda::load<kWidth>(merge.mean + position, some);
  const Floats<kWidth> sent = load_if<kWidth>(merge.sent, position, some);
  Floats<kWidth> weights = cuda::load<kWidth>(output.weights + offset, some);
  Floats<kWidth> ema = load_if<kWidth>(merge.ema, offset, some);
  Floats<kWidth> anchor = load_if<kWidth>(merge.anchor, offset, some);
  Floats<kWidth> outer = load_if<kWidth>(merge.outer, offset, some);
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    if (e >= some) continue;
    const WeightState old = {weights.at[e], ema.at[e], anchor.at[e], outer.at[e]};
    const WeightState state = merged_weight(merge, old, mean.at[e], sent.at[e], sums);
    weights.at[e] = state.weight;
    ema.at[e] = state.ema;
    anchor.at[e] = state.anchor;
    outer.at[e] = state.outer;
  }
  cuda::store(weights, some, output.weights + offset);
  store_if(ema, some, merge.ema, offset);
  store_if(anchor, some, merge.anchor, offset);
  store_if(outer, some, merge.outer, offset);
  store_compute(weights, some, output, offset);
}

// One weight with what belongs to it in a common model.
struct StepState {
  float weight = 0;
  float common = 0;
  float flight = 0;
  float pending = 0;
  float momentum = 0;
};

__device__ StepState merged_step(const StepsMerge& merge, const StepState& old, float answer,
                                 float own, Sums* sums) {
  StepState state = old;
  float beyond = old.weight - old.common;
  float due = answer;
  if (merge.has_own) {
    add_square(own, &sums->first);
    beyond -= own;
    due -= own;
    state.flight = old.flight - own;
  }
  if (merge.pending != nullptr) {
    const float kept = merge.smoothing * old.pending;
    state.pending = kept + due;
    beyond += kept;
    beyond -= merge.smoothing * state.pending;
  }
  state.common = old.common + answer;
  if (merge.momentum != nullptr) {
    state.momentum = merge.gain_keep * old.momentum + merge.gain_share * answer;
    state.common += merge.gain * state.momentum;
  }
  state.weight = state.common + beyond;
  add_square(state.weight - old.weight, &sums->second);
  return state;
}

template <int kWidth>
struct StepsVector {
  Floats<kWidth> answer;
  Floats<kWidth> own;
};

template <int kWidth>
__device__ void merge_steps(const StepsMerge& merge, const MergeOutput& output,
                            const StepsVector<kWidth>& steps, int64_t offset, int some,
                            Sums* sums) {
  float* const flights = merge.has_own ? merge.flight : nullptr;
  Floats<kWidth> weights = cuda::load<kWidth>(output.weights + offset, some);
  Floats<kWidth> common = cuda::load<kWidth>(merge.common + offset, some);
  Floats<kWidth> flight = load_if<kWidth>(flights, offset, some);
  Floats<kWidth> pending = load_if<kWidth>(merge.pending, offset, some);
  Floats<kWidth> momentum = load_if<kWidth>(merge.momentum, offset, some);
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    if (e >= some) continue;
    const StepState old = {weights.at[e], common.at[e], flight.at[e], pending.at[e],
                           momentum.at[e]};
    const StepState state = merged_step(merge, old, steps.answer.at[e], steps.own.at[e], sums);
    weights.at[e] = state.weight;
    common.at[e] = state.common;
    flight.at[e] = state.flight;
    pending.at[e] = state.pending;
    momentum.at[e] = state.momentum;
  }
  cuda::store(weights, some, output.weights + offset);
  cuda::store(common, some, merge.common + offset);
  store_if(flight, some, flights, offset);
  store_if(pending, some, merge.pending, offset);
  store_if(momentum, some, merge.momentum, offset);
  store_compute(weights, some, output, offset);
}

template <int kWidth>
__device__ void merge_vector(const DecodedSteps& steps, const MergeOutput& output, int64_t position,
                             int64_t offset, int some, Sums* sums) {
  const StepsVector<kWidth> vector = {cuda::load<kWidth>(steps.answer + position, some),
                                      load_if<kWidth>(steps.own, position, some)};
  merge_steps<kWidth>(steps.merge, output, vector, offset, some, sums);
}

__device__ void write_totals(const Sums& own, const MergeOutput& output) {
  const Sums totals = cuda::block_totals(own);
  if (threadIdx.x != 0) return;
  output.scratch[2 * blockIdx.x] = totals.first;
  output.scratch[2 * blockIdx.x + 1] = totals.second;
}

template <int kWidth, class Merge>
__global__ void __launch_bounds__(cuda::kThreads)
    merge_tiles(const Subset subset, int64_t count, const Merge merge, const MergeOutput output) {
  Sums own;
  for (int64_t t = blockIdx.x; t * Tile<kWidth>::kPositions < count; t += gridDim.x) {
    const Tile<kWidth> tile(subset, t);
#pragma unroll 1  // one vector of each array is enough to keep memory busy
    for (int k = 0; k < Tile<kWidth>::kVectors; ++k) {
      const int i = (k * cuda::kThreads + static_cast<int>(threadIdx.x)) * kWidth;
      const int some = cuda::some_of<kWidth>(tile.first + i, count);
      if (some == 0) continue;
      merge_vector<kWidth>(merge, output, tile.first + i, tile.offset(i), some, &own);
    }
  }
  write_totals(own, output);
}

template <int kWidth>
__device__ Floats<kWidth> values_at(const cuda::Digits& digits, int i, float scale) {
  const auto some = cuda::load<kWidth>(digits.at + i, kWidth);
  Floats<kWidth> values;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) values.at[e] = cuda::ternary_value(some.at[e], scale);
  return values;
}

// A warp has a ternary block, and decodes it on the way.
template <int kWidth>
__global__ void __launch_bounds__(cuda::kThreads)
    merge_ternary(int64_t begin, int64_t count, const TernarySteps steps,
                  const MergeOutput output) {
  constexpr int kWarps = cuda::kThreads / cuda::kWarp;
  __shared__ cuda::Digits answers[kWarps];
  __shared__ cuda::Digits owns[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  Sums sums;
  for (int64_t block = int64_t{blockIdx.x} * kWarps + warp; block < cuda::wire_blocks_of(count);
       block += int64_t{gridDim.x} * kWarps) {
    const int64_t byte = block * cuda::kBlockBytes;
    const int numbers = cuda::numbers_in(block, count);
    const cuda::ReadBlock<cuda::kWarp, false> answer(steps.answer + byte, numbers);
    answer.write(answers[warp]);
    float own_scale = 0;
    if (steps.own != nullptr) {
      const cuda::ReadBlock<cuda::kWarp, false> own(steps.own + byte, numbers);
      own.write(owns[warp]);
      own_scale = own.scale;
    }
    __syncwarp();
#pragma unroll 1  // one vector of each array is enough to keep memory busy
    for (int i = lane * kWidth; i < numbers; i += cuda::kWarp * kWidth) {
      StepsVector<kWidth> vector = {values_at<kWidth>(answers[warp], i, answer.scale), {}};
      if (steps.own != nullptr) vector.own = values_at<kWidth>(owns[warp], i, own_scale);
      merge_steps<kWidth>(steps.merge, output, vector, begin + block * cuda::kNumbers + i,
                          cuda::some_of<kWidth>(i, numbers), &sums);
    }
    __syncwarp();  // before the next digits
  }
  write_totals(sums, output);
}

__global__ void __launch_bounds__(cuda::kThreads)
    add_blocks(const MergeOutput output, int64_t blocks) {
  const Sums totals = cuda::grid_totals(output.scratch, blocks);
  if (threadIdx.x != 0) return;
  output.sums[0] = totals.first;
  output.sums[1] = totals.second;
}

// Then adds up what the blocks have added; zeros, if there are none.
void launch_totals(const MergeOutput& output, int64_t blocks) {
  cuda::launch(add_blocks, {1, cuda::kThreads, output.stream}, output, blocks);
}

template <int kWidth, class Merge>
void launch_merge(const Subset& subset, const Merge& merge, const MergeOutput& output) {
  const int64_t count = subset.count();
  const int64_t blocks = cuda::blocks_for(cuda::tiles_of<kWidth>(count));
  if (blocks > 0) {
    cuda::launch(merge_tiles<kWidth, Merge>,
                 {static_cast<unsigned>(blocks), cuda::kThreads, output.stream}, subset, count,
                 merge, output);
  }
  launch_totals(output, blocks);
}

template <int kWidth>
void launch_ternary(const Subset& subset, const TernarySteps& steps, const MergeOutput& output) {
  constexpr int64_t kWarps = cuda::kThreads / cuda::kWarp;
  const int64_t count = subset.count();
  const int64_t blocks = cuda::blocks_for((cuda::wire_blocks_of(count) + kWarps - 1) / kWarps);
  if (blocks > 0) {
    cuda::launch(merge_ternary<kWidth>,
                 {static_cast<unsigned>(blocks), cuda::kThreads, output.stream}, subset.begin(0),
                 count, steps, output);
  }
  launch_totals(output, blocks);
}

// Whether every array begins at a multiple of four numbers, and so do all runs.
bool is_wide(const Subset& subset, const MergeOutput& output,
             std::initializer_list<const void*> arrays) {
  const bool starts_whole = !subset.is_stretch() || subset.runs == 0 || subset.begin(0) % 4 == 0;
  const bool runs_whole = subset.is_stretch() || subset.granularity() % 4 == 0;
  bool wide = starts_whole && runs_whole && cuda::is_aligned(output.weights, 16) &&
              cuda::is_aligned(output.compute, output.compute_is_bf16 ? 8 : 16);
  for (const void* const array : arrays) wide = wide && cuda::is_aligned(array, 16);
  return wide;
}

}  // namespace

int64_t merge_scratch(int64_t count) {
  return 2 * cuda::blocks_for(cuda::tiles_of<1>(count));  // the most: with the smallest tiles
}

void merge_weights_cuda(const Subset& subset, const WeightsMerge& merge,
                        const MergeOutput& output) {
  const bool wide =
      is_wide(subset, output, {merge.mean, merge.sent, merge.ema, merge.anchor, merge.outer});
  wide ? launch_merge<4>(subset, merge, output) : launch_merge<1>(subset, merge, output);
}

void merge_steps_cuda(const Subset& subset, const DecodedSteps& steps, const MergeOutput& output) {
  const StepsMerge& merge = steps.merge;
  const bool wide =
      is_wide(subset, output,
              {steps.answer, steps.own, merge.common, merge.flight, merge.pending, merge.momentum});
  wide ? launch_merge<4>(subset, steps, output) : launch_merge<1>(subset, steps, output);
}

void merge_ternary_cuda(const Subset& subset, const TernarySteps& steps,
                        const MergeOutput& output) {
  const StepsMerge& merge = steps.merge;
  const bool wide =
      is_wide(subset, output, {merge.common, merge.flight, merge.pending, merge.momentum});
  wide ? launch_ternary<4>(subset, steps, output) : launch_ternary<1>(subset, steps, output);
}

}  // namespace leeway
