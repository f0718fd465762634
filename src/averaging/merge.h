// Merges a round's mean into the weights (docs/averaging.md). Pure arithmetic on one
// worker's own tensors, one whole chunk of a subset at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "averaging/subset.h"
#include "config/choices.h"

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

// Sums of squares, so that chunks add up.
struct MergeNorms {
  int64_t count = 0;
  double drift = 0;       // sum over u
  double correction = 0;  // sum over the merge's changes: new weights - old weights
};
MergeNorms merge(const MergeOptions& options, const MergeArguments& arguments,
                 MergeBuffers& buffers);
// The same with ATen operations, for devices other than the CPU. Waits for the device, because it
// returns sums.
MergeNorms merge_aten(const MergeOptions& options, const MergeArguments& arguments,
                      MergeBuffers& buffers);

// The mean, added up in the order given (ascending by replica); in the values' type.
at::Tensor mean_of(const std::vector<at::Tensor>& values);
// Mean over the values of |value - mean|^2: the squared spread of the replicas.
double spread_of(const std::vector<at::Tensor>& values, const at::Tensor& mean);

}  // namespace leeway
