// Ternary blocks (kernels/wire_loops.h). The rule for a block adds in fp64 over sixteen lanes; here
// half a warp has a block, and each of its threads is one of those lanes.
#include "kernels/cuda_device.h"
#include "kernels/wire_cuda.h"

namespace leeway {
namespace {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kScaleBytes = 4;
constexpr int kNumbers = 512;  // in a whole block
constexpr int kBlockBytes = 107;
constexpr int kPlanes = 5;  // values per byte
constexpr int kLanes = 16;
constexpr int kOwn = kNumbers / kLanes;  // numbers of each thread: every sixteenth
constexpr int kEncoders = 128;           // threads
constexpr int kSlots = kEncoders / kLanes;

__host__ __device__ int64_t wire_blocks_of(int64_t count) {
  return (count + kNumbers - 1) / kNumbers;
}

__device__ int numbers_in(int64_t block, int64_t count) {
  const int64_t left = count - block * kNumbers;
  return left >= kNumbers ? kNumbers : (left > 0 ? static_cast<int>(left) : 0);
}

// What is encoded, number by number. load() also returns what store() will want to know of it, and
// store() gets what the code says.
struct PlainNumbers {
  const float* values;

  __device__ void prepare() {}
  __device__ float load(int64_t i, float* /*kept*/) const { return values[i]; }
  __device__ void store(int64_t, float, float) const {}
};

struct NumbersToSend {
  StepsToSend steps;

  __device__ void prepare() {}
  __device__ float load(int64_t i, float* kept) const {
    float beyond = steps.weights[i] - steps.common[i];
    if (steps.pending != nullptr) beyond = beyond + steps.smoothing * steps.pending[i];
    *kept = steps.flight[i];
    return beyond - *kept;
  }
  __device__ void store(int64_t i, float kept, float said) const { steps.flight[i] = kept + said; }
};

struct NumbersToAnswer {
  StepsToAnswer steps;
  float share = 0;

  __device__ void prepare() { share = *steps.share; }
  __device__ float load(int64_t i, float* kept) const {
    *kept = steps.mean[i] * share + steps.residual[i];
    return *kept;
  }
  __device__ void store(int64_t i, float kept, float said) const {
    steps.residual[i] = kept - said;
  }
};

// The lanes' sums, in their order.
__device__ double lanes_total(double own) {
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += __shfl_sync(kAllLanes, own, lane, kLanes);
  return sum;
}

__device__ int lanes_count(int own) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    own += __shfl_xor_sync(kAllLanes, own, distance, kLanes);
  }
  return own;
}

struct Rule {
  float threshold = 0;
  float scale = 0;
};

// As ternary_rule() in kernels/wire_loops.cpp. Numbers past the end of a block are zeros.
__device__ Rule rule_of(const float (&values)[kOwn], int numbers) {
  const double infinity = __longlong_as_double(0x7ff0000000000000LL);
  double squares = 0;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const auto value = static_cast<double>(values[k]);
    squares += value * value;
  }
  const double square = lanes_total(squares) / static_cast<double>(numbers);
  const double threshold = 0.6 * sqrt(square);
  const auto compared = static_cast<float>(threshold);
  double kept = 0;
  int kept_count = 0;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const float size = fabsf(values[k]);
    kept += static_cast<double>(size > compared ? size : 0.0F);
    kept_count += size > compared ? 1 : 0;
  }
  const double mean = lanes_total(kept) / static_cast<double>(lanes_count(kept_count));
  const auto scale = static_cast<float>(mean);  // NaN if none is kept
  const bool usable = threshold < infinity && static_cast<double>(scale) < infinity;
  if (!usable) return {static_cast<float>(infinity), 0.0F};
  return {compared, scale};
}

__device__ int digit_of(float value, float threshold) {
  return 1 + (value > threshold ? 1 : 0) - (value < -threshold ? 1 : 0);
}

__device__ void write_scale(float scale, int lane, uint8_t* encoded) {
  if (lane < kScaleBytes) {
    encoded[lane] = static_cast<uint8_t>(__float_as_uint(scale) >> (8 * lane));
  }
}

// `digits` has a place for each number of the block and for the padding of its last bytes.
__device__ void pack(const uint8_t* digits, int numbers, int lane, uint8_t* codes) {
  const int bytes = (numbers + kPlanes - 1) / kPlanes;
  for (int k = lane; k < bytes; k += kLanes) {
    const uint8_t* const d = digits + k;
    codes[k] = static_cast<uint8_t>(d[0] + 3 * d[bytes] + 9 * d[2 * bytes] + 27 * d[3 * bytes] +
                                    81 * d[4 * bytes]);
  }
}

template <class Numbers>
__global__ void __launch_bounds__(kEncoders, 4)
    encode(Numbers source, int64_t count, uint8_t* __restrict__ encoded) {
  __shared__ uint8_t digits[kSlots][kNumbers + kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int slot = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t blocks = wire_blocks_of(count);
  source.prepare();
  // The two halves of a warp stay together, even if only one of them has a block left.
  for (int64_t base = int64_t{blockIdx.x} * kSlots; base < blocks;
       base += int64_t{gridDim.x} * kSlots) {
    const int64_t block = base + slot;
    const int64_t first = block * kNumbers + lane;
    const int numbers = numbers_in(block, count);
    float values[kOwn];
    float kept[kOwn];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const bool there = k * kLanes + lane < numbers;
      kept[k] = 0;
      values[k] = there ? source.load(first + k * kLanes, &kept[k]) : 0.0F;
    }
    const Rule rule = rule_of(values, numbers);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const int digit = digit_of(values[k], rule.threshold);
      digits[slot][k * kLanes + lane] = static_cast<uint8_t>(digit);
      if (k * kLanes + lane >= numbers) continue;
      source.store(first + k * kLanes, kept[k], static_cast<float>(digit - 1) * rule.scale);
    }
    digits[slot][kNumbers + lane] = 1;
    __syncwarp();
    if (numbers > 0) {
      write_scale(rule.scale, lane, encoded + block * kBlockBytes);
      pack(digits[slot], numbers, lane, encoded + block * kBlockBytes + kScaleBytes);
    }
    __syncwarp();  // before the next digits
  }
}

// A warp has a block. One that nobody could have encoded is zeros: no host has looked at it.
__global__ void __launch_bounds__(cuda::kThreads)
    decode(const uint8_t* __restrict__ encoded, int64_t count, float* __restrict__ values) {
  constexpr int kOwnBytes = 4;  // 103 codes or fewer, over 32 threads
  constexpr int kWarps = cuda::kThreads / cuda::kWarp;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  for (; block < wire_blocks_of(count); block += int64_t{gridDim.x} * kWarps) {
    const uint8_t* const from = encoded + block * kBlockBytes;
    const int numbers = numbers_in(block, count);
    const int bytes = (numbers + kPlanes - 1) / kPlanes;
    uint32_t codes[kOwnBytes];
    bool wrong = false;
#pragma unroll
    for (int j = 0; j < kOwnBytes; ++j) {
      const int k = j * cuda::kWarp + lane;
      codes[j] = k < bytes ? from[kScaleBytes + k] : 0;
      wrong = wrong || codes[j] >= 243;
    }
    uint32_t bits = 0;
    for (int byte = 0; byte < kScaleBytes; ++byte) {
      bits |= static_cast<uint32_t>(from[byte]) << (8 * byte);
    }
    float scale = __uint_as_float(bits);
    wrong = wrong || !isfinite(scale) || scale < 0;
    const bool zeros = __any_sync(kAllLanes, wrong);
    scale = zeros ? 0.0F : scale;
    float* const to = values + block * kNumbers;
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll
      for (int j = 0; j < kOwnBytes; ++j) {
        const int k = j * cuda::kWarp + lane;
        const uint32_t third = (codes[j] * 171) >> 9;  // codes / 3 for any byte
        const int value = zeros ? 0 : static_cast<int>(codes[j] - 3 * third) - 1;
        codes[j] = third;
        if (k < bytes && plane * bytes + k < numbers) {
          to[plane * bytes + k] = static_cast<float>(value) * scale;
        }
      }
    }
  }
}

template <class Numbers>
void launch_encode(const Numbers& numbers, int64_t count, uint8_t* encoded, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks =
      static_cast<unsigned>(cuda::blocks_for((wire_blocks_of(count) + kSlots - 1) / kSlots));
  cuda::launch(encode<Numbers>, {blocks, kEncoders, stream}, numbers, count, encoded);
}

}  // namespace

void encode_ternary_cuda(const float* values, int64_t count, uint8_t* encoded,
                         cudaStream_t stream) {
  launch_encode(PlainNumbers{values}, count, encoded, stream);
}

void contribute_ternary_cuda(const StepsToSend& steps, uint8_t* encoded, cudaStream_t stream) {
  launch_encode(NumbersToSend{steps}, steps.count, encoded, stream);
}

void reduce_ternary_cuda(const StepsToAnswer& steps, uint8_t* encoded, cudaStream_t stream) {
  launch_encode(NumbersToAnswer{steps}, steps.count, encoded, stream);
}

void decode_ternary_cuda(const uint8_t* encoded, int64_t count, float* values,
                         cudaStream_t stream) {
  if (count == 0) return;
  constexpr int64_t kWarps = cuda::kThreads / cuda::kWarp;
  const int64_t blocks = cuda::blocks_for((wire_blocks_of(count) + kWarps - 1) / kWarps);
  cuda::launch(decode, {static_cast<unsigned>(blocks), cuda::kThreads, stream}, encoded, count,
               values);
}

}  // namespace leeway
