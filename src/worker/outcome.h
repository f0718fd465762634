// What run() computed for a piece of work, for finish() to send and report. A field is set only by
// the work that it belongs to, and never by a worker without compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "compute/stage_reports.h"
#include "events/work.h"

namespace leeway {

struct Outcome {
  WorkTimes times = {};        // set by the driver
  at::Tensor payload = {};     // forward, backward, evaluate: for the neighbour; reduce: the answer
  at::Tensor clip_norms = {};  // squared gradient norms of an update, once they are complete
  std::optional<double> total_norm = {};  // update: squared, of the whole model
  std::optional<StageUpdate> update = {};
  std::optional<Prediction> prediction = {};       // update: how well the look-ahead guessed
  std::optional<StageEvaluation> evaluation = {};  // evaluate: after the last batch
  std::optional<StageState> state = {};            // save
  std::vector<at::Tensor> parts = {};              // contribute: one per chunk
  std::optional<RoundNorms> round_norms = {};      // reduce, merge
  ReplicaSet refused = {};  // reduce: whose parts were not finite, and left out
  uint64_t hash = 0;        // merge: of what the answer made; contribute: of what replicas share
};

}  // namespace leeway
