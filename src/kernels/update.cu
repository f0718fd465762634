// The CUDA twin of update.cpp. Element by element the same operations in the same order, and
// compiled without contraction: the same bits as on the CPU.
#include "base/mix.h"
#include "kernels/bf16.h"
#include "kernels/cuda_device.h"
#include "kernels/gate_fields.h"
#include "kernels/update_cuda.h"

namespace leeway::cuda {
namespace {

constexpr int kPieceFields = 4;

// The constants in the type that elements are computed in.
struct FloatConstants {
  double gradient_scale;
  float momentum_share;
  float variance_keep;
  float variance_share;
  float weight_keep;
  float gradient_part;
  float momentum_part;
  float root_scale;
  float epsilon;
  float noise_share;
  float square_scale;
};

FloatConstants rounded(const StepConstants& c) {
  return {c.gradient_scale,
          static_cast<float>(c.momentum_share),
          static_cast<float>(c.variance_keep),
          static_cast<float>(1 - c.variance_keep),
          static_cast<float>(c.weight_keep),
          static_cast<float>(c.gradient_part),
          static_cast<float>(c.momentum_part),
          static_cast<float>(c.root_scale),
          static_cast<float>(c.epsilon),
          static_cast<float>(c.noise_share),
          static_cast<float>(c.square_scale)};
}

struct Piece {
  int64_t offset, scratch_offset, count;
  bool decays;
};

__device__ Piece piece_of(const PassPointers& p) {
  const int64_t* const fields = p.pieces + static_cast<int64_t>(blockIdx.x) * kPieceFields;
  return {fields[0], fields[1], fields[2], fields[3] != 0};
}

__device__ float scale_of(const PassPointers& p, double scale) {
  return static_cast<float>(p.gate == nullptr ? scale : scale * p.gate[kGateScale]);
}

// A preview shows what a gate would hide.
__device__ bool is_open(const PassPointers& p) {
  return p.preview || p.gate == nullptr || p.gate[kGateOpen] != 0;
}

// One element or four at once.
template <int kWidth>
struct Pack {
  float values[kWidth];
};

template <int kWidth>
__device__ Pack<kWidth> load(const float* from) {
  if constexpr (kWidth == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    return {{*from}};
  }
}

template <int kWidth>
__device__ void store(const Pack<kWidth>& pack, float* to) {
  if constexpr (kWidth == 4) {
    const auto& v = pack.values;
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    *to = pack.values[0];
  }
}

template <int kWidth>
__device__ void store_bf16(const Pack<kWidth>& pack, uint16_t* to) {
  if constexpr (kWidth == 4) {
    const auto& v = pack.values;
    *reinterpret_cast<ushort4*>(to) =
        make_ushort4(bf16_of(v[0]), bf16_of(v[1]), bf16_of(v[2]), bf16_of(v[3]));
  } else {
    *to = bf16_of(pack.values[0]);
  }
}

template <int kWidth>
__device__ Pack<kWidth> load_bf16(const uint16_t* from) {
  if constexpr (kWidth == 4) {
    const ushort4 v = *reinterpret_cast<const ushort4*>(from);
    return {{bf16_value(v.x), bf16_value(v.y), bf16_value(v.z), bf16_value(v.w)}};
  } else {
    return {{bf16_value(*from)}};
  }
}

template <int kWidth>
__device__ void store_copy(const PassPointers& p, const Pack<kWidth>& weights, int64_t at) {
  if (p.copy == CopyType::kFloat) store<kWidth>(weights, static_cast<float*>(p.compute) + at);
  if (p.copy == CopyType::kBf16) store_bf16(weights, static_cast<uint16_t*>(p.compute) + at);
}

template <int kWidth>
__device__ Pack<kWidth> load_moments(const PassPointers& p, const void* from, int64_t at) {
  if (p.half_moments) return load_bf16<kWidth>(static_cast<const uint16_t*>(from) + at);
  return load<kWidth>(static_cast<const float*>(from) + at);
}

// As round_block() on the CPU.
template <int kWidth>
__device__ void store_moments(const PassPointers& p, Moment moment, const Pack<kWidth>& pack,
                              void* to, int64_t at) {
  if (!p.half_moments) return store<kWidth>(pack, static_cast<float*>(to) + at);
  const int shift = kMomentBits * static_cast<int>(moment);
  uint16_t rounded[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    const uint64_t drawn = folded_bits(p.rounding, static_cast<uint64_t>(at + j)) >> shift;
    rounded[j] = bf16_by_chance(pack.values[j], static_cast<uint16_t>(drawn));
  }
  auto* const place = static_cast<uint16_t*>(to) + at;
  if constexpr (kWidth == 4) {
    *reinterpret_cast<ushort4*>(place) =
        make_ushort4(rounded[0], rounded[1], rounded[2], rounded[3]);
  } else {
    *place = rounded[0];
  }
}

// What of the second moment counts: as in adam_block() on the CPU.
__device__ float counted_variance(const FloatConstants& c, float m, float v) {
  if (c.noise_share >= 1) return v;
  const float square = c.square_scale * m * m;
  const float signal = square < v ? square : v;
  return signal + c.noise_share * (v - signal);
}

template <bool kAdam, int kWidth>
__device__ void update_piece(const FloatConstants& c, const PassPointers& p, const Piece& piece) {
  const float scale = scale_of(p, c.gradient_scale);
  const float keep = piece.decays ? c.weight_keep : 1.0F;
  const bool open = is_open(p);
  for (int64_t i = threadIdx.x * kWidth; i < piece.count; i += kThreads * kWidth) {
    const int64_t at = piece.offset + i;
    auto weights = load<kWidth>(p.weights + at);
    if (!open) {  // forwards go on until the host has heard of it: with the weights as they are
      store_copy<kWidth>(p, weights, at);
      continue;
    }
    const auto gradients = load<kWidth>(p.gradients + at);
    auto momentum = load_moments<kWidth>(p, p.momentum, at);
    Pack<kWidth> variance;
    if constexpr (kAdam) variance = load_moments<kWidth>(p, p.variance, at);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float g = gradients.values[j] * scale;
      const float m = momentum.values[j] + c.momentum_share * (g - momentum.values[j]);
      momentum.values[j] = m;
      const float step = c.gradient_part * g + c.momentum_part * m;
      if constexpr (kAdam) {
        const float v = variance.values[j] * c.variance_keep + c.variance_share * g * g;
        variance.values[j] = v;
        const float root = sqrtf(counted_variance(c, m, v));
        weights.values[j] = weights.values[j] * keep - step / (root * c.root_scale + c.epsilon);
      } else {
        weights.values[j] = weights.values[j] * keep - step;
      }
    }
    if (!p.preview) {
      store<kWidth>(weights, p.weights + at);
      store_moments<kWidth>(p, Moment::kMomentum, momentum, p.momentum, at);
      if constexpr (kAdam) store_moments<kWidth>(p, Moment::kVariance, variance, p.variance, at);
    }
    store_copy<kWidth>(p, weights, at);
  }
}

__device__ bool takes_four(const Piece& piece) {
  return piece.offset % 4 == 0 && piece.scratch_offset % 4 == 0 && piece.count % 4 == 0;
}

template <bool kAdam>
__global__ void __launch_bounds__(kThreads)
    element_kernel(const FloatConstants c, const PassPointers p, bool aligned) {
  const Piece piece = piece_of(p);
  if (aligned && takes_four(piece)) {
    update_piece<kAdam, 4>(c, p, piece);
  } else {
    update_piece<kAdam, 1>(c, p, piece);
  }
}

template <int kWidth>
__device__ void direct_piece(const FloatConstants& c, const PassPointers& p, const Piece& piece,
                             uint16_t* directions) {
  const float scale = scale_of(p, c.gradient_scale);
  const bool writes = is_open(p) && !p.preview;
  for (int64_t i = threadIdx.x * kWidth; i < piece.count; i += kThreads * kWidth) {
    const int64_t at = piece.offset + i;
    const auto gradients = load<kWidth>(p.gradients + at);
    auto momentum = load_moments<kWidth>(p, p.momentum, at);
    Pack<kWidth> direction;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float g = gradients.values[j] * scale;
      const float m = momentum.values[j] + c.momentum_share * (g - momentum.values[j]);
      momentum.values[j] = m;
      direction.values[j] = c.gradient_part * g + c.momentum_part * m;
    }
    if (writes) store_moments<kWidth>(p, Moment::kMomentum, momentum, p.momentum, at);
    store_bf16(direction, directions + piece.scratch_offset + i);
  }
}

__global__ void __launch_bounds__(kThreads)
    direction_kernel(const FloatConstants c, const PassPointers p, uint16_t* directions,
                     bool aligned) {
  const Piece piece = piece_of(p);
  if (aligned && takes_four(piece)) {
    direct_piece<4>(c, p, piece, directions);
  } else {
    direct_piece<1>(c, p, piece, directions);
  }
}

template <int kWidth>
__device__ void step_piece(float keep, float step, const PassPointers& p, const Piece& piece,
                           const uint16_t* directions) {
  const bool open = is_open(p);
  for (int64_t i = threadIdx.x * kWidth; i < piece.count; i += kThreads * kWidth) {
    const int64_t at = piece.offset + i;
    auto weights = load<kWidth>(p.weights + at);
    if (open) {
      const auto direction = load_bf16<kWidth>(directions + piece.scratch_offset + i);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        weights.values[j] = weights.values[j] * keep - step * direction.values[j];
      }
      if (!p.preview) store<kWidth>(weights, p.weights + at);
    }
    store_copy<kWidth>(p, weights, at);
  }
}

__global__ void __launch_bounds__(kThreads)
    apply_kernel(float keep, float step, const PassPointers p, const uint16_t* directions,
                 bool aligned) {
  const Piece piece = piece_of(p);
  if (aligned && takes_four(piece)) {
    step_piece<4>(keep, step, p, piece, directions);
  } else {
    step_piece<1>(keep, step, p, piece, directions);
  }
}

unsigned blocks_of(const PassPointers& p) { return static_cast<unsigned>(p.piece_count); }

bool are_aligned(const PassPointers& p) {
  return is_aligned(p.weights, 16) && is_aligned(p.gradients, 16) && is_aligned(p.momentum, 16) &&
         is_aligned(p.variance, 16) && is_aligned(p.compute, 16);
}

}  // namespace

void element_pass(const StepConstants& constants, const PassPointers& p, cudaStream_t stream) {
  const auto kernel = p.variance != nullptr ? element_kernel<true> : element_kernel<false>;
  launch(kernel, {blocks_of(p), kThreads, stream}, rounded(constants), p, are_aligned(p));
}

void direction_pass(const StepConstants& constants, const PassPointers& p, void* directions,
                    cudaStream_t stream) {
  const bool aligned = are_aligned(p) && is_aligned(directions, 8);
  launch(direction_kernel, {blocks_of(p), kThreads, stream}, rounded(constants), p,
         static_cast<uint16_t*>(directions), aligned);
}

void apply_pass(double weight_keep, double step, const PassPointers& p, const void* directions,
                cudaStream_t stream) {
  const bool aligned = are_aligned(p) && is_aligned(directions, 8);
  launch(apply_kernel, {blocks_of(p), kThreads, stream}, static_cast<float>(weight_keep),
         static_cast<float>(step), p, static_cast<const uint16_t*>(directions), aligned);
}

}  // namespace leeway::cuda
