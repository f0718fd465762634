// Parcels that a test can tell apart: numbered in `session`, with bytes that no other number has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "drivers/loop/post.h"

namespace leeway {

inline Parcel numbered_parcel(int64_t number, size_t bytes,
                              TrafficClass traffic = TrafficClass::kPipeline) {
  Parcel parcel = {.traffic = traffic, .session = number, .bytes = std::vector<std::byte>(bytes)};
  uint64_t word = static_cast<uint64_t>(number) + 1;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(parcel.bytes.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return parcel;
}

}  // namespace leeway
