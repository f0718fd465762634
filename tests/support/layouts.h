// A layout of vectors with these lengths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameters.h"

namespace leeway {

inline ParameterLayout layout_of(const std::vector<int64_t>& counts) {
  ParameterLayout layout;
  int64_t offset = 0;
  for (const int64_t count : counts) {
    layout.push_back({std::to_string(offset), ParameterKind::kVector, offset, 1, count});
    offset += count;
  }
  return layout;
}

}  // namespace leeway
