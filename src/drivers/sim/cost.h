// How long each piece of work takes: given, or modeled from its arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "events/work.h"
#include "model/shape.h"

namespace leeway::sim {

// Costs of one stage on one worker. Zero is allowed: such work takes no time.
struct StageCosts {
  Nanos forward = {};
  Nanos backward = {};
  Nanos update = {};
  Nanos save = {};
  Nanos evaluate = {};
  Nanos round = {};  // a contribution, a reduction or a merge; a part of a state

  Nanos of(WorkKind kind) const;
};

// The same work on a worker that is `speed` times as fast; nonzero costs stay at least 1 ns.
StageCosts at_speed(const StageCosts& costs, double speed);

struct CostOptions {
  double flops_per_second = 1e12;   // a worker of speed 1
  std::vector<double> speeds = {};  // factors by stage; empty: all 1
  int64_t microbatch_tokens = 0;
  int64_t evaluation_tokens = 0;  // in one batch of validation data
  bool recompute = false;         // a backward repeats its forward
  // A contribution gathers and encodes a round's values, a merge reads and writes them: a few
  // operations each. Reducing a chunk over all replicas costs about as much. Unused in runs without
  // rounds.
  double round_flops_per_parameter = 2;
  double round_fraction = 0.05;      // share of the parameters that a round exchanges
  double save_bytes_per_second = 0;  // 0: saving takes the worker no time
};

// One per stage, cut as in training. A multiply-add is two operations; a backward costs twice a
// forward. Every duration is at least 1 ns, so that time always advances.
std::vector<StageCosts> model_costs(const ModelShape& shape, int64_t stages,
                                    const CostOptions& options);

}  // namespace leeway::sim
