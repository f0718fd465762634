// Which coordinates of a stage a round exchanges, as a formula. It is plain data, and a kernel of a
// GPU takes it as it is: no list is made for it or copied to it.
#pragma once

#include <cstdint>

#include "base/mix.h"
#include "base/simd.h"

namespace leeway {

// How the runs of each group are dealt out to the parts in one cycle (averaging/subset.h).
struct Dealing {
  uint64_t key = 0;  // the cycle's
  int64_t part = 0;
  int64_t parts = 1;
  int64_t granularity = 1;
};

// Where the part's run begins in this group.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE constexpr int64_t dealt_begin(const Dealing& dealing,
                                                                int64_t group_index) {
  const auto group = static_cast<uint64_t>(group_index);
  const auto parts = static_cast<uint64_t>(dealing.parts);
  // Counter-based SplitMix64 that starts at the cycle's key.
  const uint64_t bits = mix(dealing.key + (group + 1) * kGoldenBits);
  uint64_t run = static_cast<uint64_t>(dealing.part) + (((bits >> 32) * parts) >> 32);
  run -= run >= parts ? parts : 0;
  return static_cast<int64_t>((group * parts + run) * static_cast<uint64_t>(dealing.granularity));
}

// Runs of consecutive coordinates, ascending and disjoint: one of each of `runs` neighbouring
// groups. All are `granularity` long, except that the end of the stage may cut the last one short.
struct Subset {
  Dealing dealing = {};
  int64_t first_group = 0;
  int64_t runs = 0;
  int64_t parameters = 0;  // in the stage

  LEEWAY_ON_DEVICE constexpr int64_t granularity() const { return dealing.granularity; }
  LEEWAY_ON_DEVICE constexpr int64_t begin(int64_t run) const {
    return dealt_begin(dealing, first_group + run);
  }
  LEEWAY_ON_DEVICE constexpr int64_t length(int64_t run) const {
    const int64_t left = parameters - begin(run);
    return left < granularity() ? left : granularity();
  }
  LEEWAY_ON_DEVICE constexpr int64_t count() const {  // coordinates
    return runs == 0 ? 0 : (runs - 1) * granularity() + length(runs - 1);
  }
  // Whether all coordinates are consecutive.
  LEEWAY_ON_DEVICE constexpr bool is_stretch() const { return dealing.parts == 1 || runs <= 1; }

  // Chunk `chunk` of `chunks`: a range of the runs. Together the chunks are the subset.
  Subset chunk(int64_t chunk, int64_t chunks) const;
};

}  // namespace leeway
