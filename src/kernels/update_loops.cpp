#include "kernels/update_loops.h"

#include <cmath>
#include <type_traits>

#include "base/mix.h"
#include "base/simd.h"
#include "kernels/bf16.h"

namespace leeway {

// A block's pointers never overlap: LEEWAY_INDEPENDENT lets the compiler omit its checks.

template <bool kLessNoise, class Scalar>
LEEWAY_SIMD void adam_loop(const StepConstants& constants, const ElementBlock<Scalar>& block) {
  const Scalar scale = static_cast<Scalar>(constants.gradient_scale);
  const Scalar momentum_share = static_cast<Scalar>(constants.momentum_share);
  const Scalar variance_keep = static_cast<Scalar>(constants.variance_keep);
  // Computed in fp64: 1 - 0.999f is off by more than the tests allow.
  const Scalar variance_share = static_cast<Scalar>(1 - constants.variance_keep);
  const Scalar weight_keep = static_cast<Scalar>(constants.weight_keep);
  const Scalar gradient_part = static_cast<Scalar>(constants.gradient_part);
  const Scalar momentum_part = static_cast<Scalar>(constants.momentum_part);
  const Scalar root_scale = static_cast<Scalar>(constants.root_scale);
  const Scalar epsilon = static_cast<Scalar>(constants.epsilon);
  const Scalar noise_share = static_cast<Scalar>(constants.noise_share);
  const Scalar square_scale = static_cast<Scalar>(constants.square_scale);
  Scalar* const weights = block.weights;
  const Scalar* const gradients = block.gradients;
  Scalar* const momentum = block.momentum;
  Scalar* const variance = block.variance;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < block.count; ++i) {
    const Scalar g = gradients[i] * scale;
    const Scalar m = momentum[i] + momentum_share * (g - momentum[i]);
    const Scalar v = variance[i] * variance_keep + variance_share * g * g;
    momentum[i] = m;
    variance[i] = v;
    Scalar counted = v;
    if constexpr (kLessNoise) {
      const Scalar square = square_scale * m * m;
      const Scalar signal = square < v ? square : v;
      counted = signal + noise_share * (v - signal);
    }
    weights[i] = weights[i] * weight_keep - (gradient_part * g + momentum_part * m) /
                                                (std::sqrt(counted) * root_scale + epsilon);
  }
}

template <class Scalar>
void adam_block(const StepConstants& constants, const ElementBlock<Scalar>& block) {
  constants.noise_share < 1 ? adam_loop<true>(constants, block)
                            : adam_loop<false>(constants, block);
}

template <class Scalar>
LEEWAY_SIMD void momentum_block(const StepConstants& constants, const ElementBlock<Scalar>& block) {
  const Scalar scale = static_cast<Scalar>(constants.gradient_scale);
  const Scalar momentum_share = static_cast<Scalar>(constants.momentum_share);
  const Scalar weight_keep = static_cast<Scalar>(constants.weight_keep);
  const Scalar gradient_part = static_cast<Scalar>(constants.gradient_part);
  const Scalar momentum_part = static_cast<Scalar>(constants.momentum_part);
  Scalar* const weights = block.weights;
  const Scalar* const gradients = block.gradients;
  Scalar* const momentum = block.momentum;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < block.count; ++i) {
    const Scalar g = gradients[i] * scale;
    const Scalar m = momentum[i] + momentum_share * (g - momentum[i]);
    momentum[i] = m;
    weights[i] = weights[i] * weight_keep - (gradient_part * g + momentum_part * m);
  }
}

template <class Scalar>
LEEWAY_SIMD void direction_block(const StepConstants& constants,
                                 const ElementBlock<Scalar>& block) {
  const Scalar scale = static_cast<Scalar>(constants.gradient_scale);
  const Scalar momentum_share = static_cast<Scalar>(constants.momentum_share);
  const Scalar gradient_part = static_cast<Scalar>(constants.gradient_part);
  const Scalar momentum_part = static_cast<Scalar>(constants.momentum_part);
  const Scalar* const gradients = block.gradients;
  Scalar* const momentum = block.momentum;
  Scalar* const direction = block.direction;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < block.count; ++i) {
    const Scalar g = gradients[i] * scale;
    const Scalar m = momentum[i] + momentum_share * (g - momentum[i]);
    momentum[i] = m;
    direction[i] = gradient_part * g + momentum_part * m;
  }
}

template <class Scalar>
LEEWAY_SIMD void apply_block(double keep, double step, const ElementBlock<Scalar>& block) {
  const Scalar weight_keep = static_cast<Scalar>(keep);
  const Scalar step_size = static_cast<Scalar>(step);
  Scalar* const weights = block.weights;
  const Scalar* const direction = block.direction;
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < block.count; ++i) {
    weights[i] = weights[i] * weight_keep - step_size * direction[i];
  }
}

template <class From, class To>
LEEWAY_SIMD void copy_block(const From* from, int64_t count, To* to) {
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, uint16_t>) {
      to[i] = bf16_of(static_cast<float>(from[i]));
    } else {
      to[i] = static_cast<To>(from[i]);
    }
  }
}

LEEWAY_SIMD void widen_block(const uint16_t* from, int64_t count, float* to) {
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) to[i] = bf16_value(from[i]);
}

LEEWAY_SIMD void round_block(const float* from, int64_t count, uint64_t folded, int64_t first,
                             Moment moment, uint16_t* to) {
  const auto start = static_cast<uint64_t>(first);
  const int shift = kMomentBits * static_cast<int>(moment);
  LEEWAY_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t drawn = folded_bits(folded, start + static_cast<uint64_t>(i)) >> shift;
    to[i] = bf16_by_chance(from[i], static_cast<uint16_t>(drawn));
  }
}

template <class Scalar>
LEEWAY_SIMD double sum_of_squares(const Scalar* values, int64_t count) {
  // Sixteen parallel sums, whatever the vector width: a fixed order that vectorizes.
  constexpr int64_t kSums = 16;
  double lanes[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

template void adam_block(const StepConstants&, const ElementBlock<float>&);
template void momentum_block(const StepConstants&, const ElementBlock<float>&);
template void direction_block(const StepConstants&, const ElementBlock<float>&);
template void apply_block(double, double, const ElementBlock<float>&);
template void copy_block(const float*, int64_t, float*);
template void copy_block(const float*, int64_t, double*);
template void copy_block(const float*, int64_t, uint16_t*);
template double sum_of_squares(const float*, int64_t);

template void adam_block(const StepConstants&, const ElementBlock<double>&);
template void momentum_block(const StepConstants&, const ElementBlock<double>&);
template void direction_block(const StepConstants&, const ElementBlock<double>&);
template void apply_block(double, double, const ElementBlock<double>&);
template void copy_block(const double*, int64_t, float*);
template void copy_block(const double*, int64_t, double*);
template void copy_block(const double*, int64_t, uint16_t*);
template double sum_of_squares(const double*, int64_t);

}  // namespace leeway
