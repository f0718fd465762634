// Results of a stage's work: plain data for the worker to report and the recorder to write.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "averaging/sent_steps.h"
#include "base/chunk_position.h"
#include "base/ids.h"
#include "base/replica_set.h"
#include "events/traffic.h"
#include "optim/optimizer.h"

namespace leeway {

// One stage's part of one update.
struct StageUpdate {
  WorkerId worker;
  int64_t update = 0;       // updates done, this one included
  bool applied = true;      // false: loss or gradients were not finite; the weights are unchanged
  double squared_norm = 0;  // this stage's gradients
  std::optional<double> total_squared_norm = std::nullopt;  // the whole model's, if known
  double rate_factor = 0;
  std::optional<double> loss = std::nullopt;  // last stage: mean over the update's microbatches
};

// How well the look-ahead guessed: the distance between the weights that a forward used and those
// its gradient met, over the same distance without look-ahead. Below 1 it helps.
struct Prediction {
  WorkerId worker;
  int64_t update = 0;
  int64_t delay = 0;
  double error = 0;
};

struct StageEvaluation {
  WorkerId worker;
  int64_t update = 0;
  double loss = 0;  // mean over the tokens
  int64_t windows = 0;
  ReplicaSet replicas = {};  // whose mean was measured
  bool given_up = false;     // it will not be made: a stage lacks copies that another one has
};

// A copy of what a checkpoint needs from one stage.
struct StageState {
  WorkerId worker;
  int64_t update = 0;
  int64_t checkpoint = 0;  // the checkpoint it is for: the same for all workers, where `update` of
                           // replicas that do not wait for each other may differ
  at::Tensor weights = {};
  Optimizer::State optimizer = {};   // including averaging's buffers
  std::vector<int64_t> rounds = {};  // the next one, by lane
  // Of a common model: where its chunks are, and own contributions under way.
  std::vector<ChunkPosition> chunks = {};
  std::vector<SentSteps> sent = {};
  uint64_t model_hash = 0;  // of what all replicas share: the common model, or the weights where
                            // gradients are averaged; 0: they share nothing
  PurposeBytes bytes = {};  // that this worker had sent in the session
  bool last = false;        // the session ends with it
};

}  // namespace leeway
