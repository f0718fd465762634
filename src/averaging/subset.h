// Which coordinates a round exchanges: a pure function of seed, stage and round, so that every
// replica computes the same ones and nothing is broadcast.
//
// A stage's coordinates are cut into runs of `granularity`, and every `parts` neighbouring runs
// form a group. In each group the runs are dealt out to the parts by a rotation that is drawn anew
// for each cycle of `parts` rounds. So the parts of a cycle are disjoint and cover everything. A
// coordinate is equally likely to be in any of them, independently of all other groups. Listing a
// part's runs, in ascending order, costs time and memory only for that part.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace leeway {

// Runs of consecutive coordinates, ascending and disjoint. All are `granularity` long, except that
// the end of the stage may cut the last one short.
struct Subset {
  int64_t granularity = 1;
  int64_t parameters = 0;  // in the stage
  std::vector<int64_t> begins;

  int64_t count() const;  // coordinates
  int64_t length(size_t run) const;
  // Chunk `chunk` of `chunks`: a range of the runs. Together the chunks are the subset.
  Subset chunk(int64_t chunk, int64_t chunks) const;
};

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
  // The number of coordinates in the subset, or in one chunk, without listing its runs.
  int64_t count(int64_t round) const;
  int64_t count(int64_t round, int64_t chunk, int64_t chunks) const;

 private:
  CutOptions options_;
  int64_t parts_ = 1;
};

}  // namespace leeway
