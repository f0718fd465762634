// How deep a pipeline must be to hide the latency of its links, and what the latency costs a
// shallower pipeline.
//
// In steady state, stage s starts forward m at a_s + mT, and backward m, which follows forward
// m + W_s, at b_s + mT. A message takes L from one stage to the next:
//
//   a_s+1 >= a_s + f_s + L                 an activation arrives
//   b_s   >= a_s + f_s + W_s T             static order: forward m + W_s comes before backward m
//   b_s   >= b_s+1 + g_s+1 + L             a gradient arrives (g: a backward's time)
//   a_s + (W_s + 1) T >= b_s + g_s         and backward m before forward m + W_s + 1
//
// Around the loop through stages i to j they give (W_i - W_j + 1) T >= sum of (f + g) + 2 (j-i) L:
// the microbatches between i and j cover the round trip. No other loop gives a tighter bound. A
// stage that is always busy has T = f + g + update/K, so with equal stages
// extra_per_hop = ceil(2L / T).
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "pipeline/schedule.h"

namespace leeway {

struct StageTimes {
  Nanos forward;   // for one microbatch
  Nanos backward;  // same
  Nanos update;
};

// For one activation or gradient, each way; the same for all hops.
struct HopTimes {
  Nanos latency;
  Nanos transfer;  // while its bytes occupy the link
};

struct PipelineTimes {
  std::vector<StageTimes> stages = {};
  HopTimes hop;
};

struct DepthPlan {
  Nanos slot;  // T: the slowest stage's time per microbatch, with its share of an update
  int64_t extra_per_hop = 0;  // the smallest that keeps the slowest stage, or the link, busy
  bool link_bound = false;    // a message occupies the link for longer than a slot: no depth helps
};

// For the asynchronous order with an update every `update_every` microbatches.
DepthPlan plan_depth(const PipelineTimes& times, int64_t update_every);

// The fraction of time that the slowest stage is busy, once the pipeline is full. Asynchronous:
// exact, except that updates are spread evenly over the microbatches. Synchronous, from update to
// update: exact for equal stages, otherwise an estimate; L = 0 gives the well-known
// K / (K + P - 1).
double busy_share(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace leeway
