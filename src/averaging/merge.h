// Merges a round's mean into the weights (docs/averaging.md). Pure arithmetic on one
// worker's own tensors, one whole chunk of a subset at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "averaging/subset.h"
#include "config/choices.h"
#include "kernels/means.h"  // what is merged is a mean

namespace leeway {

struct MergeOptions {
  Correction correction = Correction::kEma;
  double ema_start = 0.5;
  double ema_end = 0.99;
  int64_t run_rounds = 0;  // in the whole run; the last one uses ema_end
  double outer_rate = 1;
  double outer_momentum = 0;

  bool has_ema() const { return correction == Correction::kEma; }
  bool has_outer() const { return outer_rate != 1 || outer_momentum != 0; }
};

// m in round `round`: ema_start up to round 1000, then a cosine to ema_end at the last.
double ema_constant(const MergeOptions& options, int64_t round);

// Flat, with the stage's size and the weights' type; undefined where the rule needs none.
struct MergeBuffers {
  at::Tensor ema;     // e
  at::Tensor anchor;  // x: starts at the initial weights
  at::Tensor outer;   // b
};
MergeBuffers make_merge_buffers(const MergeOptions& options, const at::Tensor& weights);

struct MergeArguments {
  Subset subset;  // this chunk's
  int64_t round = 0;
  at::Tensor mean;          // A: decoded, in the weights' type
  at::Tensor sent = {};     // own weights when sent; undefined: nothing was sent, and w = x = A
  at::Tensor weights;       // flat, changed in place
  at::Tensor compute = {};  // flat copy for forwards, any floating type; undefined: none to update
};

// Sums of squares, so that chunks add up: over u, and over the merge's changes, which are new
// weights - old weights.
struct MergeSums {
  int64_t count = 0;
  at::Tensor
      sums;  // fp64, on the weights' device: [drift, correction]; nothing has waited for them

  // These wait for the device.
  double drift() const { return sums[0].item<double>(); }
  double correction() const { return sums[1].item<double>(); }
};
// On a GPU, a weight stays as it is where the mean is not finite.
MergeSums merge(const MergeOptions& options, const MergeArguments& arguments,
                MergeBuffers& buffers);

}  // namespace leeway
