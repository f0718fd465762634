// How long each piece of work takes: given, or modeled from its arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "events/work.h"
#include "model/shape.h"

namespace leeway::sim {

// Costs of a lane's rounds on one worker, in proportion to the values that a piece of work touches.
struct RoundCosts {
  Nanos contribute = {};  // a worker's part of a round, all chunks of it
  Nanos part = {};        // reduce: what one replica has sent for a chunk
  Nanos answer = {};      // reduce: what all of them make of the chunk
  Nanos merge = {};       // the answer of a chunk

  // As much for every piece of work, however many replicas are in it.
  static RoundCosts each(Nanos cost) {
    return {.contribute = cost, .part = {}, .answer = cost, .merge = cost};
  }
  Nanos of(const Work& work) const;
};

// Costs of one stage on one worker. Zero is allowed: such work takes no time.
struct StageCosts {
  Nanos forward = {};
  Nanos backward = {};
  Nanos update = {};
  Nanos save = {};
  Nanos evaluate = {};
  RoundCosts rounds = {};  // of the averaging method
  RoundCosts copies = {};  // for evaluations

  Nanos of(const Work& work) const;
};

// The same work on a worker that is `speed` times as fast; nonzero costs stay at least 1 ns.
StageCosts at_speed(const StageCosts& costs, double speed);

struct CostOptions {
  double flops_per_second = 1e12;   // a worker of speed 1
  std::vector<double> speeds = {};  // factors by stage; empty: all 1
  int64_t microbatch_tokens = 0;
  int64_t evaluation_tokens = 0;  // in one batch of validation data
  bool recompute = false;         // a backward repeats its forward; that of the last stage makes it
  double save_bytes_per_second = 0;  // 0: saving takes the worker no time
};

// One per stage, cut as in training, without rounds. A multiply-add is two operations; a backward
// costs twice a forward. Every duration is at least 1 ns, so that time always advances.
std::vector<StageCosts> model_costs(const ModelShape& shape, int64_t stages,
                                    const CostOptions& options);

}  // namespace leeway::sim
