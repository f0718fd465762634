// Blocks of int8 and int4 (kernels/wire_loops.h), with the same operations in the same order.
#include <cfloat>

#include "base/mix.h"
#include "kernels/cuda_device.h"
#include "kernels/wire_cuda.h"

namespace leeway {
namespace {

constexpr int kScaleBytes = 4;
constexpr int kNumbers = 256;  // in a whole block
constexpr int kBlockBytes = kScaleBytes + kNumbers;
constexpr int kOwn = kNumbers / cuda::kWarp;  // numbers of each thread: a warp has a block
constexpr int kWarps = cuda::kThreads / cuda::kWarp;
constexpr int kInt4Numbers = 64;
constexpr int kInt4Codes = kInt4Numbers / 2;
constexpr int kInt4BlockBytes = kScaleBytes + kInt4Codes;
constexpr int kInt8Most = 127;
constexpr int kInt4Most = 7;
constexpr float kRounder = 0x1.8p23F;  // as there

template <int kMost>
__device__ float clamped(float value) {
  constexpr float most = kMost;
  value = value > most ? most : value;
  return value < -most ? -most : value;
}

// As mixed() there.
__device__ uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16U)) * 0x7feb352dU;
  x = (x ^ (x >> 15U)) * 0x846ca68bU;
  return x ^ (x >> 16U);
}

// What the values of a block have in common.
struct BlockScale {
  float scale = 0;
  float inverse = 0;
};

template <int kMost>
__device__ BlockScale scale_of(uint32_t largest) {
  // A GPU gives every NaN the same bits; the CPU keeps those that a value had.
  if (largest > 0x7f800000U) {
    const float nan = __uint_as_float(largest | 0x00400000U);
    return {nan, nan};
  }
  const float scale = __uint_as_float(largest) / static_cast<float>(kMost);
  if (scale < FLT_MIN) return {0.0F, 0.0F};
  return {scale, 1 / scale};
}

__device__ uint8_t low_byte(float rounded, float scale) {
  const float shown = rounded != rounded ? scale : rounded;  // the CPU's NaN, again
  return static_cast<uint8_t>(__float_as_uint(shown));
}

template <int kMost>
__device__ uint8_t nearest_code(float value, const BlockScale& block) {
  return low_byte(clamped<kMost>(value * block.inverse) + kRounder, block.scale);
}

__device__ uint8_t random_code(float value, const BlockScale& block, uint32_t drawn) {
  const float scaled = clamped<kInt8Most>(value * block.inverse);
  const float nearest = (scaled + kRounder) - kRounder;
  const float below = nearest - (nearest > scaled ? 1.0F : 0.0F);
  const auto bits = static_cast<int32_t>(mixed(drawn) >> 8U);
  const float chance = static_cast<float>(bits) * 0x1p-24F;
  const float up = chance < scaled - below ? 1.0F : 0.0F;
  return low_byte(below + up + kRounder, block.scale);
}

template <bool kStochastic>
__global__ void __launch_bounds__(cuda::kThreads)
    encode(const float* __restrict__ values, int64_t count, uint64_t folded,
           uint8_t* __restrict__ encoded) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  for (; block * kNumbers < count; block += int64_t{gridDim.x} * kWarps) {
    const int64_t first = block * kNumbers;
    const int numbers = count - first < kNumbers ? static_cast<int>(count - first) : kNumbers;
    float own[kOwn];
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int i = j * cuda::kWarp + lane;
      own[j] = i < numbers ? values[first + i] : 0.0F;
      const uint32_t magnitude = __float_as_uint(own[j]) & 0x7fffffffU;
      largest = largest > magnitude ? largest : magnitude;
    }
    const BlockScale scale = scale_of<kInt8Most>(__reduce_max_sync(0xffffffffU, largest));
    uint8_t* const to = encoded + block * kBlockBytes;
    if (lane < kScaleBytes) {
      to[lane] = static_cast<uint8_t>(__float_as_uint(scale.scale) >> (8 * lane));
    }
    const uint64_t random = kStochastic ? folded_bits(folded, static_cast<uint64_t>(block)) : 0;
    const auto start = static_cast<uint32_t>(random);
    const uint32_t step = static_cast<uint32_t>(random >> 32U) | 1U;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int i = j * cuda::kWarp + lane;
      if (i >= numbers) continue;
      to[kScaleBytes + i] =
          kStochastic ? random_code(own[j], scale, start + static_cast<uint32_t>(i) * step)
                      : nearest_code<kInt8Most>(own[j], scale);
    }
  }
}

// A thread has kWidth neighbouring numbers, which are in one block.
template <int kWidth>
__global__ void __launch_bounds__(cuda::kThreads)
    decode(const uint8_t* __restrict__ encoded, int64_t count, float* __restrict__ values) {
  const int64_t stride = int64_t{gridDim.x} * cuda::kThreads * kWidth;
  int64_t i = (int64_t{blockIdx.x} * cuda::kThreads + threadIdx.x) * kWidth;
  for (; i < count; i += stride) {
    const int some = cuda::some_of<kWidth>(i, count);
    const uint8_t* const block = encoded + i / kNumbers * kBlockBytes;
    uint32_t bits = 0;
    if constexpr (kWidth == kScaleBytes) {
      bits = *reinterpret_cast<const uint32_t*>(block);  // blocks are whole words
    } else {
      for (int byte = 0; byte < kScaleBytes; ++byte) {
        bits |= static_cast<uint32_t>(block[byte]) << (8 * byte);
      }
    }
    const float scale = __uint_as_float(bits);
    const auto codes = cuda::load<kWidth>(block + kScaleBytes + i % kNumbers, some);
    cuda::Vector<float, kWidth> decoded;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      decoded.at[e] = static_cast<float>(static_cast<int8_t>(codes.at[e])) * scale;
    }
    cuda::store(decoded, some, values + i);
  }
}

// A thread has both values of a byte.
__global__ void __launch_bounds__(cuda::kThreads)
    encode_int4(const float* __restrict__ values, int64_t count, uint8_t* __restrict__ encoded) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  for (; block * kInt4Numbers < count; block += int64_t{gridDim.x} * kWarps) {
    const int64_t first = block * kInt4Numbers;
    const int numbers = cuda::some_of<kInt4Numbers>(first, count);
    const int bytes = (numbers + 1) / 2;
    const float low = lane < bytes ? values[first + lane] : 0.0F;
    const bool both = lane < bytes && lane + bytes < numbers;
    const float high = both ? values[first + lane + bytes] : 0.0F;
    const uint32_t low_bits = __float_as_uint(low) & 0x7fffffffU;
    const uint32_t high_bits = __float_as_uint(high) & 0x7fffffffU;
    const uint32_t largest = low_bits > high_bits ? low_bits : high_bits;
    const BlockScale scale = scale_of<kInt4Most>(__reduce_max_sync(0xffffffffU, largest));
    uint8_t* const to = encoded + block * kInt4BlockBytes;
    if (lane < kScaleBytes) {
      to[lane] = static_cast<uint8_t>(__float_as_uint(scale.scale) >> (8 * lane));
    }
    if (lane >= bytes) continue;
    const unsigned upper = both ? nearest_code<kInt4Most>(high, scale) << 4U : 0U;
    to[kScaleBytes + lane] =
        static_cast<uint8_t>((nearest_code<kInt4Most>(low, scale) & 15U) | upper);
  }
}

// A thread has a byte.
__global__ void __launch_bounds__(cuda::kThreads)
    decode_int4(const uint8_t* __restrict__ encoded, int64_t count, float* __restrict__ values) {
  const int64_t stride = int64_t{gridDim.x} * cuda::kThreads;
  int64_t i = int64_t{blockIdx.x} * cuda::kThreads + threadIdx.x;
  for (; i / kInt4Codes * kInt4Numbers < count; i += stride) {
    const int64_t first = i / kInt4Codes * kInt4Numbers;
    const int k = static_cast<int>(i % kInt4Codes);
    const int numbers = cuda::some_of<kInt4Numbers>(first, count);
    const int bytes = (numbers + 1) / 2;
    if (k >= bytes) continue;
    const uint8_t* const block = encoded + i / kInt4Codes * kInt4BlockBytes;
    uint32_t bits = 0;
    for (int byte = 0; byte < kScaleBytes; ++byte) {
      bits |= static_cast<uint32_t>(block[byte]) << (8 * byte);
    }
    const float scale = __uint_as_float(bits);
    const uint8_t code = block[kScaleBytes + k];
    values[first + k] = static_cast<float>(static_cast<int8_t>(code << 4) >> 4) * scale;
    if (k + bytes >= numbers) continue;
    values[first + k + bytes] = static_cast<float>(static_cast<int8_t>(code) >> 4) * scale;
  }
}

// A warp has a block.
unsigned encoder_blocks(int64_t count, int64_t numbers) {
  const int64_t wire_blocks = (count + numbers - 1) / numbers;
  return static_cast<unsigned>(cuda::blocks_for((wire_blocks + kWarps - 1) / kWarps));
}

}  // namespace

void encode_int8_cuda(const float* values, int64_t count, uint8_t* encoded, cudaStream_t stream) {
  if (count == 0) return;
  cuda::launch(encode<false>, {encoder_blocks(count, kNumbers), cuda::kThreads, stream}, values,
               count, uint64_t{0}, encoded);
}

void encode_int8_stochastic_cuda(const float* values, int64_t count, uint64_t folded,
                                 uint8_t* encoded, cudaStream_t stream) {
  if (count == 0) return;
  cuda::launch(encode<true>, {encoder_blocks(count, kNumbers), cuda::kThreads, stream}, values,
               count, folded, encoded);
}

void encode_int4_cuda(const float* values, int64_t count, uint8_t* encoded, cudaStream_t stream) {
  if (count == 0) return;
  cuda::launch(encode_int4, {encoder_blocks(count, kInt4Numbers), cuda::kThreads, stream}, values,
               count, encoded);
}

void decode_int4_cuda(const uint8_t* encoded, int64_t count, float* values, cudaStream_t stream) {
  if (count == 0) return;
  const int64_t codes = (count + kInt4Numbers - 1) / kInt4Numbers * kInt4Codes;
  const auto blocks =
      static_cast<unsigned>(cuda::blocks_for((codes + cuda::kThreads - 1) / cuda::kThreads));
  cuda::launch(decode_int4, {blocks, cuda::kThreads, stream}, encoded, count, values);
}

void decode_int8_cuda(const uint8_t* encoded, int64_t count, float* values, cudaStream_t stream) {
  if (count == 0) return;
  const bool wide = cuda::is_aligned(encoded, 4) && cuda::is_aligned(values, 16);
  const int64_t positions = int64_t{cuda::kThreads} * (wide ? 4 : 1);
  const auto blocks = static_cast<unsigned>(cuda::blocks_for((count + positions - 1) / positions));
  const auto kernel = wide ? decode<4> : decode<1>;
  cuda::launch(kernel, {blocks, cuda::kThreads, stream}, encoded, count, values);
}

}  // namespace leeway
