// Random numbers are a function of names and counters, never of a shared generator: the same
// arguments give the same number in every process, on every thread, in any order of calls.
#pragma once

#include <array>
#include <cstdint>

namespace leeway {

// What a number is used for; part of the key, so that two uses never share a sequence.
enum class Stream : uint64_t {
  kWeights = 1,
  kSampler = 2,
  kGenerate = 3,
  kSplit = 4,
  kJitter = 5,
  kSubset = 6,
  kRounding = 7,
  kChurn = 8,
  kMoments = 9,
};

struct RandomKey {
  uint64_t seed = 0;
  Stream stream = Stream::kWeights;
  uint64_t name = 0;  // for example a hash of the parameter's name, or an epoch
};

// The key as one number: base/mix.h continues from there, in loops.
uint64_t fold(const RandomKey& key);

// 64 random bits for counter value `counter`.
uint64_t random_bits(const RandomKey& key, uint64_t counter);

// Uniform in [0, 1) with 53 bits.
double random_uniform(const RandomKey& key, uint64_t counter);

// Standard normal (Box-Muller on two uniforms of this counter).
double random_normal(const RandomKey& key, uint64_t counter);

// A bijection of [0, count) in O(1) memory: a Feistel network on the next even power of two with
// cycle walking. permutation(position) costs a few rounds of mixing.
class KeyedPermutation {
 public:
  KeyedPermutation(const RandomKey& key, uint64_t count);
  uint64_t operator()(uint64_t position) const;
  uint64_t count() const { return count_; }

 private:
  static constexpr int kRounds = 6;
  std::array<uint64_t, kRounds> round_keys_{};
  uint64_t count_ = 0;
  int half_bits_ = 1;
};

}  // namespace leeway
