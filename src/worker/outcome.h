// What run() computed for a piece of work, for finish() to send and report. A field is set only by
// the work that it belongs to, and never by a worker without compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "compute/late_reports.h"
#include "compute/stage_reports.h"
#include "events/work.h"

namespace leeway {

// When a piece of work was done, once it is: a device may have yet to do it. With `wait`, waits.
using WhenDone = std::function<std::optional<WorkTimes>(bool wait)>;

struct Outcome {
  WorkTimes times = {};        // set by the driver
  WhenDone when_done = {};     // likewise, and in place of the times; empty: it is done
  at::Tensor payload = {};     // forward, backward, evaluate: for the neighbour; reduce: the answer
  at::Tensor clip_norms = {};  // squared gradient norms of an update, once they are complete
  at::Tensor total_norm = {};  // update: squared, of the whole model
  std::optional<LateUpdate> update = {};
  std::optional<LatePrediction> prediction = {};   // update: how well the look-ahead guessed
  std::optional<StageEvaluation> evaluation = {};  // evaluate: after the last batch
  std::optional<StageState> state = {};            // save
  std::vector<at::Tensor> parts = {};              // contribute: one per chunk
  std::optional<LateNorms> round_norms = {};       // reduce, merge
  ReplicaSet refused = {};  // reduce: whose parts were not finite, and left out
  uint64_t hash = 0;        // merge: of what the answer made; contribute: of what replicas share
};

// What is told of a piece of work when it is done.
struct LateWork {
  WorkRecord record;
  WhenDone when_done = {};
  std::optional<LateUpdate> update = {};  // unless it was told before
  std::optional<LatePrediction> prediction = {};
  std::optional<LateNorms> norms = {};
};

}  // namespace leeway
