// The innermost loops of an update on the CPU, over one block of the flat buffers. A block fits in
// the cache, so each loop finds there what the last one wrote: together they make one pass over
// memory. Each element's arithmetic is the same for any vector width (no contraction, no
// reordering), so the bits depend neither on the machine nor on the number of threads.
#pragma once

#include <cstdint>

namespace leeway {

// Constants of one update, the same for every element.
struct StepConstants {
  double gradient_scale = 1;  // clipping
  double momentum_share = 0;  // 1 - beta1
  double variance_keep = 0;   // beta2
  double weight_keep = 1;     // 1 - rate decay, where decay applies
  double gradient_part = 0;   // rate times the gradient's share of the direction
  double momentum_part = 0;   // rate times the momentum's
  double root_scale = 1;      // 1 / sqrt(1 - beta2^t)
  double epsilon = 0;
  double noise_share = 1;   // of v: what of the noise in it counts; 1: all of it
  double square_scale = 0;  // from m^2 to the part of v that is not noise
};

// A range of the flat buffers. `variance` is null for rules without one. `direction` is set only
// for rules that do more with it than take a step.
template <class Scalar>
struct ElementBlock {
  int64_t count = 0;
  Scalar* weights = nullptr;
  const Scalar* gradients = nullptr;
  Scalar* momentum = nullptr;
  Scalar* variance = nullptr;
  Scalar* direction = nullptr;
};

// The functions below exist for float and double; `To` may also be the bits of bf16.

// m += (1-b1)(g-m); v = b2 v + (1-b2) g^2; w = keep w - (cg g + cm m) / (sqrt(v) root_scale + eps)
// With a noise_share below 1, s + noise_share (v - s) takes v's place below the root, where
// s = min(square_scale m^2, v).
template <class Scalar>
void adam_block(const StepConstants& constants, const ElementBlock<Scalar>& block);

// m += (1-b1)(g-m); w = keep w - (cg g + cm m)
template <class Scalar>
void momentum_block(const StepConstants& constants, const ElementBlock<Scalar>& block);

// m += (1-b1)(g-m); direction = cg g + cm m
template <class Scalar>
void direction_block(const StepConstants& constants, const ElementBlock<Scalar>& block);

// w = keep w - step direction
template <class Scalar>
void apply_block(double weight_keep, double step, const ElementBlock<Scalar>& block);

// Writes the compute copy. bf16 values are their 16 bits; rounds to nearest even, like ATen.
template <class From, class To>
void copy_block(const From* from, int64_t count, To* to);

// A moment that is kept in bf16: as fp32, and rounded by chance. Which number is drawn depends on
// `folded` (base/mix.h), on the place in the flat buffer, which begins at `first`, and on `moment`.
enum class Moment { kMomentum = 0, kVariance = 1 };
inline constexpr int kMomentBits = 16;  // of one drawn number, for each of them
void widen_block(const uint16_t* from, int64_t count, float* to);
void round_block(const float* from, int64_t count, uint64_t folded, int64_t first, Moment moment,
                 uint16_t* to);

// Sum of squares in fp64, in an order that depends on `count` alone.
template <class Scalar>
double sum_of_squares(const Scalar* values, int64_t count);

}  // namespace leeway
