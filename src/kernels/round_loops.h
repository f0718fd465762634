// The innermost loops of averaging on the CPU, over a block of a subset's positions. A block fits
// in the cache: it is gathered from the flat buffers, changed and written back in one pass over
// memory. Each element's arithmetic is the same for any vector width, and sums have a fixed order,
// so the bits depend neither on the machine nor on the number of threads.
#pragma once

#include <cstdint>

#include "kernels/subset.h"

namespace leeway {

// Writes where this part's run begins in each of these groups.
void deal_runs(const Dealing& dealing, int64_t first_group, int64_t groups, int64_t* begins);

inline constexpr int64_t kBlockElements = 1024;
// Each run is in a page of its own: the hardware does not prefetch it, and the first touch would
// wait for memory and for the page's address. So loops touch what comes this much later.
inline constexpr int64_t kElementsAhead = 1024;

// Positions [first, last) in a subset's runs, counted from one run to the next.
struct RunRange {
  const int64_t* begins = nullptr;  // of the runs [listed, runs)
  int64_t listed = 0;
  int64_t runs = 0;
  int64_t granularity = 1;
  int64_t first = 0;
  int64_t last = 0;

  int64_t count() const { return last - first; }
  int64_t begin(int64_t run) const { return begins[run - listed]; }
  // Where the first position is in the flat buffer.
  int64_t offset() const { return begin(first / granularity) + first % granularity; }
  // Whether the positions are contiguous there too.
  bool is_stretch() const {
    const int64_t first_run = first / granularity;
    const int64_t last_run = (last - 1) / granularity;
    return begin(last_run) - begin(first_run) == (last_run - first_run) * granularity;
  }
};

// Copy between a flat buffer and a compact one. Elements are float, double or the bits of bf16.
template <class Element>
void gather_runs(const RunRange& range, const Element* flat, Element* compact);
template <class Element>
void scatter_runs(const RunRange& range, const Element* compact, Element* flat);

// Copies from one flat buffer to another: from float or double to float, double or the bits of
// bf16, rounded to nearest even.
template <class From, class To>
void convert_runs(const RunRange& range, const From* from, To* to);

// Sums of squares over a block, in fp64.
struct BlockSums {
  double drift = 0;
  double correction = 0;
};

// The functions below exist for float and double.

// A block of one merge. `range` refers to the buffers that change; `mean` and `sent` are compact
// and start at the block's first position. `sent` is null if nothing was sent; the buffers of rules
// that are off are null too.
template <class Scalar>
struct MergeBlock {
  RunRange range;
  const Scalar* mean = nullptr;
  const Scalar* sent = nullptr;
  Scalar* weights = nullptr;
  Scalar* ema = nullptr;
  Scalar* anchor = nullptr;
  Scalar* outer = nullptr;
};
struct MergeConstants {
  bool keeps_steps = false;  // adds u (delta), or its average if there is an ema buffer
  double ema_keep = 0;       // m
  double outer_rate = 1;
  double outer_momentum = 0;
};
template <class Scalar>
BlockSums merge_block(const MergeConstants& constants, const MergeBlock<Scalar>& block);

// A block of one merge of steps. `own` is null if nothing of this worker is in the answer; then so
// is `flight`, and also where it does not have them in it.
template <class Scalar>
struct StepsBlock {
  int64_t count = 0;
  const Scalar* answer = nullptr;
  const Scalar* own = nullptr;
  Scalar* weights = nullptr;
  Scalar* common = nullptr;
  Scalar* flight = nullptr;
  Scalar* pending = nullptr;
  Scalar* momentum = nullptr;
};
struct StepsConstants {
  double smoothing = 0;
  double gain = 0;
  double gain_smoothing = 0;
};
template <class Scalar>
BlockSums merge_steps_block(const StepsConstants& constants, const StepsBlock<Scalar>& block);

// mean = sum of values[0..replicas) / replicas, added up in fp64 in that order.
template <class Scalar>
void mean_block(const Scalar* const* values, int64_t replicas, int64_t count, Scalar* mean);
// Sum of (left - right)^2 in fp64.
template <class Scalar>
double squared_distance(const Scalar* left, const Scalar* right, int64_t count);

}  // namespace leeway
