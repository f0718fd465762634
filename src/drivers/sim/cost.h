// How long each piece of work takes: given, or from a model of the arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "events/work.h"
#include "model/shape.h"

namespace leeway::sim {

// Of one stage on one worker. Zero is allowed: then it happens in no time.
struct StageCosts {
  Nanos forward = {};
  Nanos backward = {};
  Nanos update = {};
  Nanos save = {};
  Nanos evaluate = {};
  Nanos round = {};  // a contribution, a reduction or a merge

  Nanos of(WorkKind kind) const;
};

// The same work on a worker that is `speed` times as fast; at least 1 ns where it was anything.
StageCosts at_speed(const StageCosts& costs, double speed);

struct CostOptions {
  double flops_per_second = 1e12;   // of a worker of speed 1
  std::vector<double> speeds = {};  // factors of it, by stage; empty: all 1
  int64_t microbatch_tokens = 0;
  int64_t evaluation_tokens = 0;  // of one batch of validation data
  bool recompute = false;         // a backward repeats its forward
  // A contribution gathers and encodes a round's numbers, a merge reads and writes them: a few
  // operations each. A chunk's reduction, over all replicas, is about as much. Work without rounds
  // never asks for it.
  double round_flops_per_parameter = 2;
  double round_fraction = 0.05;      // of the parameters that a round exchanges
  double save_bytes_per_second = 0;  // 0: saving takes no time of the worker's
};

// One per stage, for the cut that training makes. A multiply-add is two operations, a backward
// twice a forward. Every duration is at least 1 ns, so that time goes on.
std::vector<StageCosts> model_costs(const ModelShape& shape, int64_t stages,
                                    const CostOptions& options);

}  // namespace leeway::sim
