// Ternary blocks (kernels/wire_loops.h). The rule for a block adds in fp64 over sixteen lanes; here
// half a warp has a block, and each of its threads is one of those lanes.
#include "kernels/bf16.h"
#include "kernels/cuda_ternary.h"
#include "kernels/wire_cuda.h"
#include "kernels/wire_loops.h"

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
// store() gets what the code says. `codes` are taken off before.
struct PlainNumbers {
  static constexpr bool kCodes = false;
  const float* values;
  double times_rms;

  __device__ double threshold() const { return times_rms; }

  __device__ float load(int64_t i, float* /*kept*/) const { return values[i]; }
  __device__ void store(int64_t, float, float) const {}
};

template <bool kFlight>
struct NumbersToSend {
  static constexpr bool kCodes = !kFlight;
  StepsToSend steps;

  __device__ double threshold() const { return steps.threshold; }
  __device__ float load(int64_t i, float* kept) const {
    float beyond = steps.weights[i] - steps.common[i];
    if (steps.pending != nullptr) beyond = beyond + steps.smoothing * steps.pending[i];
    if (!kFlight) return beyond;
    *kept = steps.flight[i];
    return beyond - *kept;
  }
  __device__ void store(int64_t i, float kept, float said) const {
    if (kFlight) steps.flight[i] = kept + said;
  }
};

// The lanes' sums, in their order.
__device__ double lanes_total(double own) {
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += __shfl_sync(kAllLanes, own, lane, kLanes);
  return sum;
}

// The bits of the largest magnitude: they order like magnitudes, with NaN above everything.
__device__ uint32_t lanes_largest(uint32_t own) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, own, distance, kLanes);
    own = own > other ? own : other;
  }
  return own;
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
__device__ Rule rule_of(const float (&values)[kOwn], int numbers, double times_rms) {
  const double infinity = __longlong_as_double(0x7ff0000000000000LL);
  double squares = 0;
  uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const auto value = static_cast<double>(values[k]);
    squares += value * value;
    const uint32_t size = __float_as_uint(values[k]) & 0x7fffffffU;
    bits = bits > size ? bits : size;
  }
  const double square = lanes_total(squares) / static_cast<double>(numbers);
  const double usual = times_rms * sqrt(square);
  const double largest = kAlwaysKept * static_cast<double>(__uint_as_float(lanes_largest(bits)));
  const double threshold = usual < largest ? usual : largest;
  const float least = __uint_as_float(1);  // zeros are never kept
  const float compared =
      static_cast<float>(threshold) > least ? static_cast<float>(threshold) : least;
  double kept = 0;
  int kept_count = 0;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const float size = fabsf(values[k]);
    kept += static_cast<double>(size >= compared ? size : 0.0F);
    kept_count += size >= compared ? 1 : 0;
  }
  const double mean = lanes_total(kept) / static_cast<double>(lanes_count(kept_count));
  const float scale = bf16_value(bf16_of(static_cast<float>(mean)));  // NaN if none is kept
  const bool usable = threshold < infinity && static_cast<double>(scale) < infinity;
  if (!usable) return {static_cast<float>(infinity), 0.0F};
  return {compared, scale};
}

__device__ int digit_of(float value, float threshold) {
  return 1 + (value >= threshold ? 1 : 0) - (value <= -threshold ? 1 : 0);
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
// kWhole: nobody has to ask whether a number is there, so that all reads begin at once.
template <bool kWhole>
struct OwnBlock {
  __device__ OwnBlock(int64_t base, int64_t count)
      : lane(static_cast<int>(threadIdx.x) % kLanes),
        block(base + threadIdx.x / kLanes),
        numbers(kWhole ? kNumbers : cuda::numbers_in(block, count)) {}

  // The k-th number of this thread.
  __device__ bool has(int k) const { return kWhole || index(k) < numbers; }
  __device__ int index(int k) const { return k * kLanes + lane; }
  __device__ int64_t position(int k) const { return block * kNumbers + lane + k * kLanes; }

  int lane;
  int64_t block;
  int numbers;
};

// Writes the code of a block's numbers, and calls said(k, what it says of the k-th number).
template <bool kWhole, class Said>
__device__ void write_block(const OwnBlock<kWhole>& own, const float (&values)[kOwn],
                            double times_rms, Digits& digits, uint8_t* encoded, const Said& said) {
  const Rule rule = rule_of(values, own.numbers, times_rms);
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

// Calls whole(base) for the blocks that this block of threads has, or rest(base) at the end.
template <class Whole, class Rest>
__device__ void for_own_blocks(int64_t count, const Whole& whole, const Rest& rest) {
  for (int64_t base = int64_t{blockIdx.x} * kSlots; base < cuda::wire_blocks_of(count);
       base += int64_t{gridDim.x} * kSlots) {
    (base + kSlots) * kNumbers <= count ? whole(base) : rest(base);
  }
}

// Calls each(k, digit of the k-th number, scale) for a code of the block's numbers; returns the
// scale.
template <bool kWhole, class Each>
__device__ float read_code(const OwnBlock<kWhole>& own, const uint8_t* encoded, Digits& digits,
                           const Each& each) {
  const cuda::ReadBlock<kLanes, kWhole> block(encoded + own.block * kBlockBytes, own.numbers);
  block.write(digits);
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    if (own.has(k)) each(k, digits.at[own.index(k)], block.scale);
  }
  __syncwarp();  // before the next digits
  return block.scale;
}

// What is under way, one after the other.
template <bool kWhole>
__device__ void take_off(const StepsToSend& steps, const OwnBlock<kWhole>& own, Digits& digits,
                         float (&values)[kOwn]) {
#pragma unroll 1
  for (int64_t code = 0; code < steps.codes; ++code) {
    read_code(own, steps.listed[code], digits, [&](int k, uint32_t digit, float scale) {
      values[k] -= cuda::ternary_value(digit, scale);
    });
  }
}

template <bool kWhole, class Numbers>
__device__ void encode_block(const Numbers& source, const OwnBlock<kWhole>& own, Digits& digits,
                             uint8_t* encoded) {
  float values[kOwn];
  float kept[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    kept[k] = 0;
    values[k] = own.has(k) ? source.load(own.position(k), &kept[k]) : 0.0F;
  }
  if constexpr (Numbers::kCodes) take_off(source.steps, own, digits, values);
  write_block(own, values, source.threshold(), digits, encoded,
              [&](int k, float said) { source.store(own.position(k), kept[k], said); });
}

template <class Numbers>
__global__ void __launch_bounds__(kEncoders, 4)
    encode(const __grid_constant__ Numbers source, int64_t count, uint8_t* __restrict__ encoded) {
  __shared__ Digits digits[kSlots];
  Digits& own_digits = digits[threadIdx.x / kLanes];
  for_own_blocks(
      count,
      [&](int64_t base) { encode_block(source, OwnBlock<true>(base, count), own_digits, encoded); },
      [&](int64_t base) {
        encode_block(source, OwnBlock<false>(base, count), own_digits, encoded);
      });
}

// What contributions say together of a number is a word in base three, with the first one's digit
// as the lowest. A block has few words, so what follows from each is computed once.
constexpr int kWords = 81;
static_assert(kWords == 3 * 3 * 3 * 3 && StepsToAnswer::kListed == 4);

struct WordMean {
  double square;
  double spread;  // of the contributions around their mean
  float mean;
};

// In fp64 and in their order, as mean_vector() in kernels/means.cu adds them.
__device__ WordMean mean_of(int word, const float (&scales)[StepsToAnswer::kListed], int parts) {
  double values[StepsToAnswer::kListed] = {};
  double total = 0;
#pragma unroll
  for (int part = 0; part < StepsToAnswer::kListed; ++part) {
    if (part >= parts) break;
    const auto scale = static_cast<double>(scales[part]);
    const int digit = word % 3;
    values[part] = digit == 2 ? scale : (digit == 0 ? -scale : 0.0);
    total += values[part];
    word /= 3;
  }
  WordMean made = {.square = 0, .spread = 0, .mean = static_cast<float>(total / parts)};
  const auto exact = static_cast<double>(made.mean);
  made.square = exact * exact;
#pragma unroll
  for (int part = 0; part < StepsToAnswer::kListed; ++part) {
    if (part >= parts) break;
    const double distance = values[part] - exact;
    made.spread += distance * distance;
  }
  return made;
}

// b = share mean + res, and its code; also adds to the sums of FiniteMean.
template <bool kWhole>
__device__ void answer_block(const StepsToAnswer& steps, const OwnBlock<kWhole>& own,
                             Digits& digits, WordMean* means, uint8_t* encoded, Sums* sums) {
  const auto parts = static_cast<int>(steps.parts);
  uint32_t words[kOwn / 4] = {};  // four in each
  uint32_t word_count = 1;
  float scales[StepsToAnswer::kListed] = {};
#pragma unroll
  for (int part = 0; part < StepsToAnswer::kListed; ++part) {
    if (part >= parts) break;
    scales[part] = read_code(own, steps.listed[part], digits, [&](int k, uint32_t digit, float) {
      words[k / 4] += word_count * digit << (k % 4 * 8);
    });
    word_count *= 3;
  }
  for (int word = own.lane; word < static_cast<int>(word_count); word += kLanes) {
    means[word] = mean_of(word, scales, parts);
  }
  __syncwarp();
  float values[kOwn] = {};
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    if (own.has(k)) values[k] = steps.residual[own.position(k)];
  }
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    if (!own.has(k)) continue;
    const WordMean& word = means[words[k / 4] >> (k % 4 * 8) & 0xffU];
    values[k] = word.mean * steps.share + values[k];
    sums->first += word.square;
    sums->second += word.spread;
  }
  write_block(own, values, steps.threshold, digits, encoded,
              [&](int k, float said) { steps.residual[own.position(k)] = values[k] - said; });
}

// All contributions count: what a ternary block says is finite.
__global__ void __launch_bounds__(kEncoders, 4)
    reduce_ternary(const __grid_constant__ StepsToAnswer steps, uint8_t* __restrict__ encoded) {
  __shared__ Digits digits[kSlots];
  __shared__ WordMean means[kSlots][kWords];
  const unsigned slot = threadIdx.x / kLanes;
  Sums sums;
  for_own_blocks(
      steps.count,
      [&](int64_t base) {
        const OwnBlock<true> own(base, steps.count);
        answer_block(steps, own, digits[slot], means[slot], encoded, &sums);
      },
      [&](int64_t base) {
        const OwnBlock<false> own(base, steps.count);
        answer_block(steps, own, digits[slot], means[slot], encoded, &sums);
      });
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

void encode_ternary_cuda(const float* values, int64_t count, double threshold, uint8_t* encoded,
                         cudaStream_t stream) {
  launch_encode(PlainNumbers{values, threshold}, count, encoded, stream);
}

void contribute_ternary_cuda(const StepsToSend& steps, uint8_t* encoded, cudaStream_t stream) {
  if (steps.flight == nullptr) {
    launch_encode(NumbersToSend<false>{steps}, steps.count, encoded, stream);
  } else {
    launch_encode(NumbersToSend<true>{steps}, steps.count, encoded, stream);
  }
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

}  // namespace leeway
