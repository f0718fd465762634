// Which coordinates a round exchanges: a pure function of seed, stage and round, so that every
// replica computes the same ones and nothing is broadcast.
//
// A stage's coordinates are cut into runs of `granularity`, and every `parts` neighbouring runs
// form a group. In each group the runs are dealt out to the parts by a rotation that is drawn anew
// for each cycle of `parts` rounds. So the parts of a cycle are disjoint and cover everything. A
// coordinate is equally likely to be in any of them, independently of all other groups.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "kernels/runs.h"  // Subset, gather() and scatter() are there

namespace leeway {

struct CutOptions {
  uint64_t seed = 0;
  StageId stage = {};
  int64_t parameters = 0;
  double fraction = 1;  // effectively 1 / parts
  int64_t granularity = 64;
};

class Cut {
 public:
  explicit Cut(const CutOptions& options);

  int64_t parts() const { return parts_; }  // rounds in a cycle: ceil(1 / fraction)
  int64_t granularity() const { return options_.granularity; }
  Subset subset(int64_t round) const;
  // The number of coordinates in the subset, or in one chunk.
  int64_t count(int64_t round) const;
  int64_t count(int64_t round, int64_t chunk, int64_t chunks) const;

 private:
  CutOptions options_;
  int64_t parts_ = 1;
};

}  // namespace leeway
