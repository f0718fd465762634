// Valid files made wrong in the ways that files go wrong: cut off, spliced, with absurd numbers,
// deep nesting, long names and broken UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace leeway::fuzz {

class Random {
 public:
  Random(uint64_t seed, uint64_t name)
      : key_{.seed = seed, .stream = Stream::kSplit, .name = name} {}
  uint64_t bits() { return random_bits(key_, counter_++); }
  size_t below(size_t count) { return count == 0 ? 0 : static_cast<size_t>(bits() % count); }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  RandomKey key_;
  uint64_t counter_ = 0;
};

// One of `seeds` after a few changes: a function of its arguments alone. At most a megabyte.
std::string mutated(const std::vector<std::string>& seeds, Random random);

}  // namespace leeway::fuzz
