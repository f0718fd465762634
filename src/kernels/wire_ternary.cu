// Ternary blocks (kernels/wire_loops.h). The rule for a block adds in fp64 over sixteen lanes; here
// half a warp has a block, and each of its threads is one of those lanes.
#include "kernels/cuda_ternary.h"
#include "kernels/wire_cuda.h"

namespace leeway {
namespace {

using cuda::Digits;
using cuda::kAllLanes;
using cuda::kBlockBytes;
using cuda::kNumbers;
using cuda::kScaleBytes;
using cuda::Sums;

constexpr int kLanes = 16;
constexpr int kOwn = kNumbers / kLanes;  // numbers of each thread: every sixteenth
constexpr int kEncoders = 128;           // threads
constexpr int kSlots = kEncoders / kLanes;

// What is encoded, number by number. load() also returns what store() will want to know of it, and
// store() gets what the code says.
struct PlainNumbers {
  const float* values;

  __device__ float load(int64_t i, float* /*kept*/) const { return values[i]; }
  __device__ void store(int64_t, float, float) const {}
};

struct NumbersToSend {
  StepsToSend steps;

  __device__ float load(int64_t i, float* kept) const {
    float beyond = steps.weights[i] - steps.common[i];
    if (steps.pending != nullptr) beyond = beyond + steps.smoothing * steps.pending[i];
    *kept = steps.flight[i];
    return beyond - *kept;
  }
  __device__ void store(int64_t i, float kept, float said) const { steps.flight[i] = kept + said; }
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

__device__ void pack(const Digits& digits, int numbers, int lane, uint8_t* codes) {
  const int bytes = cuda::codes_of(numbers);
  for (int k = lane; k < bytes; k += kLanes) {
    const uint8_t* const d = digits.at + k;
    codes[k] = static_cast<uint8_t>(d[0] + 3 * d[bytes] + 9 * d[2 * bytes] + 27 * d[3 * bytes] +
                                    81 * d[4 * bytes]);
  }
}

// The block that half a warp has, which stays with the other half even if it has none left.
struct OwnBlock {
  __device__ OwnBlock(int64_t base, int64_t count)
      : lane(static_cast<int>(threadIdx.x) % kLanes),
        block(base + threadIdx.x / kLanes),
        numbers(cuda::numbers_in(block, count)) {}

  // The k-th number of this thread.
  __device__ bool has(int k) const { return index(k) < numbers; }
  __device__ int index(int k) const { return k * kLanes + lane; }
  __device__ int64_t position(int k) const { return block * kNumbers + index(k); }

  int lane;
  int64_t block;
  int numbers;
};

// Writes the code of a block's numbers, and calls said(k, what it says of the k-th number).
template <class Said>
__device__ void write_block(const OwnBlock& own, const float (&values)[kOwn], Digits& digits,
                            uint8_t* encoded, const Said& said) {
  const Rule rule = rule_of(values, own.numbers);
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int digit = digit_of(values[k], rule.threshold);
    digits.at[own.index(k)] = static_cast<uint8_t>(digit);
    if (own.has(k)) said(k, static_cast<float>(digit - 1) * rule.scale);
  }
  digits.at[kNumbers + own.lane] = 1;
  __syncwarp();
  if (own.numbers > 0) {
    uint8_t* const to = encoded + own.block * kBlockBytes;
    write_scale(rule.scale, own.lane, to);
    pack(digits, own.numbers, own.lane, to + kScaleBytes);
  }
  __syncwarp();  // before the next digits
}

template <class Numbers>
__global__ void __launch_bounds__(kEncoders, 4)
    encode(Numbers source, int64_t count, uint8_t* __restrict__ encoded) {
  __shared__ Digits digits[kSlots];
  for (int64_t base = int64_t{blockIdx.x} * kSlots; base < cuda::wire_blocks_of(count);
       base += int64_t{gridDim.x} * kSlots) {
    const OwnBlock own(base, count);
    float values[kOwn];
    float kept[kOwn];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      kept[k] = 0;
      values[k] = own.has(k) ? source.load(own.position(k), &kept[k]) : 0.0F;
    }
    write_block(own, values, digits[threadIdx.x / kLanes], encoded,
                [&](int k, float said) { source.store(own.position(k), kept[k], said); });
  }
}

// Calls each(i, value) for the numbers of this thread, every thirty-second, in one contribution.
template <class Each>
__device__ void for_values(const uint8_t* encoded, int numbers, Digits& digits, const Each& each) {
  const cuda::ReadBlock block(encoded, numbers);
  block.write(digits);
  __syncwarp();
  const auto scale = static_cast<double>(block.scale);
#pragma unroll 4
  for (int i = block.lane; i < numbers; i += cuda::kWarp) {
    const uint8_t digit = digits.at[i];
    each(i, digit == 2 ? scale : (digit == 0 ? -scale : 0.0));
  }
  __syncwarp();  // before the next digits
}

// What a warp makes of a block's contributions, in shared memory: there are not registers for so
// many numbers in fp64.
struct OwedBlock {
  int64_t block;
  Digits& digits;
  double* means;
  float* owed;
};

// b = share mean + res; also adds to the sums of FiniteMean. Contributions are added in fp64, in
// their order, as mean_vector() in kernels/means.cu does; multiplying by the inverse of a power of
// two is dividing, and faster.
__device__ void write_owed(const StepsToAnswer& steps, const OwedBlock& to, Sums* sums) {
  const int64_t block = to.block;
  double* const means = to.means;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  const int numbers = cuda::numbers_in(block, steps.count);
  if (numbers == 0) return;
  for (int i = lane; i < numbers; i += cuda::kWarp) means[i] = 0;
  for (int64_t part = 0; part < steps.parts; ++part) {
    for_values(steps.listed[part] + block * kBlockBytes, numbers, to.digits,
               [&](int i, double value) { means[i] += value; });
  }
  const auto divisor = static_cast<double>(steps.parts);
  const double inverse = 1 / divisor;
  const bool is_power = (steps.parts & (steps.parts - 1)) == 0;
#pragma unroll 8
  for (int i = lane; i < numbers; i += cuda::kWarp) {
    const auto mean = static_cast<float>(is_power ? means[i] * inverse : means[i] / divisor);
    to.owed[i] = mean * steps.share + steps.residual[block * kNumbers + i];
    const auto exact = static_cast<double>(mean);
    means[i] = exact;
    sums->first += exact * exact;
  }
  for (int64_t part = 0; part < steps.parts; ++part) {
    for_values(steps.listed[part] + block * kBlockBytes, numbers, to.digits,
               [&](int i, double value) {
                 const double distance = value - means[i];
                 sums->second += distance * distance;
               });
  }
}

// All contributions count: what a ternary block says is finite.
__global__ void __launch_bounds__(kEncoders, 5)
    reduce_ternary(const __grid_constant__ StepsToAnswer steps, uint8_t* __restrict__ encoded) {
  __shared__ Digits digits[kSlots];
  __shared__ float owed[kSlots][kNumbers];
  __shared__ double means[kEncoders / cuda::kWarp][kNumbers];
  const int slot = static_cast<int>(threadIdx.x) / kLanes;
  Sums sums;
  for (int64_t base = int64_t{blockIdx.x} * kSlots; base < cuda::wire_blocks_of(steps.count);
       base += int64_t{gridDim.x} * kSlots) {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {  // a warp has two slots
      const int theirs = slot / 2 * 2 + half;
      write_owed(steps, {base + theirs, digits[theirs], means[slot / 2], owed[theirs]}, &sums);
    }
    __syncwarp();
    const OwnBlock own(base, steps.count);
    float values[kOwn];
#pragma unroll
    for (int k = 0; k < kOwn; ++k) values[k] = own.has(k) ? owed[slot][own.index(k)] : 0.0F;
    write_block(own, values, digits[slot], encoded,
                [&](int k, float said) { steps.residual[own.position(k)] = values[k] - said; });
  }
  const Sums totals = cuda::block_totals<kEncoders>(sums);
  if (threadIdx.x != 0) return;
  steps.scratch[2 * blockIdx.x] = totals.first;
  steps.scratch[2 * blockIdx.x + 1] = totals.second;
}

__global__ void __launch_bounds__(cuda::kThreads)
    add_ternary_sums(const __grid_constant__ StepsToAnswer steps, int64_t blocks) {
  const Sums totals = cuda::grid_totals(steps.scratch, blocks);
  for (int64_t i = threadIdx.x; i < steps.parts; i += cuda::kThreads) steps.sums[2 + i] = 1;
  if (threadIdx.x != 0) return;
  steps.sums[0] = totals.first;
  steps.sums[1] = totals.second / static_cast<double>(steps.parts);
}

// A warp has a block.
__global__ void __launch_bounds__(cuda::kThreads)
    decode(const uint8_t* __restrict__ encoded, int64_t count, float* __restrict__ values) {
  constexpr int kWarps = cuda::kThreads / cuda::kWarp;
  int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  for (; block < cuda::wire_blocks_of(count); block += int64_t{gridDim.x} * kWarps) {
    const int numbers = cuda::numbers_in(block, count);
    const cuda::ReadBlock own(encoded + block * kBlockBytes, numbers);
    float* const to = values + block * kNumbers;
    own.for_digits([&](int i, uint32_t digit) {
      if (i < numbers) to[i] = cuda::ternary_value(digit, own.scale);
    });
  }
}

int64_t encoder_blocks(int64_t count) {
  return cuda::blocks_for((cuda::wire_blocks_of(count) + kSlots - 1) / kSlots);
}

template <class Numbers>
void launch_encode(const Numbers& numbers, int64_t count, uint8_t* encoded, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(encoder_blocks(count));
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

int64_t reduce_scratch(int64_t count) { return 2 * encoder_blocks(count); }

void reduce_ternary_cuda(const StepsToAnswer& steps, uint8_t* encoded, cudaStream_t stream) {
  const int64_t blocks = encoder_blocks(steps.count);
  if (blocks > 0) {
    cuda::launch(reduce_ternary, {static_cast<unsigned>(blocks), kEncoders, stream}, steps,
                 encoded);
  }
  cuda::launch(add_ternary_sums, {1, cuda::kThreads, stream}, steps, blocks);  // zeros, of none
}

void decode_ternary_cuda(const uint8_t* encoded, int64_t count, float* values,
                         cudaStream_t stream) {
  if (count == 0) return;
  constexpr int64_t kWarps = cuda::kThreads / cuda::kWarp;
  const int64_t blocks = cuda::blocks_for((cuda::wire_blocks_of(count) + kWarps - 1) / kWarps);
  cuda::launch(decode, {static_cast<unsigned>(blocks), cuda::kThreads, stream}, encoded, count,
               values);
}

}  // namespace leeway
