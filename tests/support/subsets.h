// Subsets for tests, and their coordinates as lists.
#pragma once

#include <cstdint>
#include <vector>

#include "averaging/subset.h"

namespace leeway {

// One run with the first `count` of a stage's parameters.
inline Subset first_of(int64_t count, int64_t parameters) {
  return {.dealing = {.granularity = count}, .runs = 1, .parameters = parameters};
}

inline Subset whole(int64_t parameters) { return first_of(parameters, parameters); }

inline std::vector<int64_t> begins_of(const Subset& subset) {
  std::vector<int64_t> begins;
  for (int64_t run = 0; run < subset.runs; ++run) begins.push_back(subset.begin(run));
  return begins;
}

inline std::vector<int64_t> coordinates_of(const Subset& subset) {
  std::vector<int64_t> coordinates;
  for (int64_t run = 0; run < subset.runs; ++run) {
    for (int64_t i = 0; i < subset.length(run); ++i) coordinates.push_back(subset.begin(run) + i);
  }
  return coordinates;
}

}  // namespace leeway
