#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/mix.h"

namespace leeway {
namespace {

double to_unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

uint64_t fold(const RandomKey& key) {
  uint64_t state = mix(key.seed + kGoldenBits);
  state = mix(state ^ (static_cast<uint64_t>(key.stream) * kGoldenBits));
  return mix(state ^ (key.name + kGoldenBits));
}

uint64_t random_bits(const RandomKey& key, uint64_t counter) {
  return folded_bits(fold(key), counter);
}

double random_uniform(const RandomKey& key, uint64_t counter) {
  return to_unit(random_bits(key, counter));
}

double random_normal(const RandomKey& key, uint64_t counter) {
  const uint64_t first = random_bits(key, counter);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(first)));  // 1 - u is never zero
  return radius * std::cos(2.0 * std::numbers::pi * to_unit(mix(first ^ kGoldenBits)));
}

KeyedPermutation::KeyedPermutation(const RandomKey& key, uint64_t count) : count_(count) {
  LEEWAY_CHECK(count > 0, "an empty permutation");
  LEEWAY_CHECK(count <= (uint64_t{1} << 62), "the Feistel halves have at most 31 bits");
  while ((uint64_t{1} << (2 * half_bits_)) < count) ++half_bits_;
  for (int round = 0; round < kRounds; ++round) {
    round_keys_[static_cast<size_t>(round)] = random_bits(key, static_cast<uint64_t>(round));
  }
}

uint64_t KeyedPermutation::operator()(uint64_t position) const {
  LEEWAY_CHECK(position < count_, "position outside the permutation");
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t x = position;
  do {  // Cycle walking: the domain is less than four times `count`, so few steps on average.
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask;
    for (const uint64_t round_key : round_keys_) {
      const uint64_t next = left ^ (mix(right ^ round_key) & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits_) | right;
  } while (x >= count_);
  return x;
}

}  // namespace leeway
