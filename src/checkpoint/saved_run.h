// A run on disk: what a checkpoint contains, and how a run resumes from it.
//
//   config.json, model.safetensors   the model as Hugging Face opens it
//   state.safetensors                the optimizer's flat buffers; with several replicas, the
//                                    weights and buffers of each, as replica.N.NAME
//   state.json                       the counters
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "model/shape.h"
#include "optim/optimizer.h"

namespace leeway {

// Everything in a run except the tensors.
struct RunCounters {
  int64_t update = 0;
  double seconds = 0;                // run time so far, over all sessions
  double seconds_updating = 0;       // the part of it spent on updates
  std::deque<double> recent_losses;  // the last few updates': the summary's train_loss
  uint64_t tokenizer_hash = 0;
  uint64_t data_hash = 0;         // hash of the training tokens
  int64_t bytes_activations = 0;  // sent between stages, over all sessions
  int64_t bytes_gradients = 0;
  int64_t bytes_evaluation = 0;
  int64_t bytes_averaging = 0;
  int64_t bytes_copies = 0;   // of bytes_evaluation: weights that replicas sent each other
  int64_t tokens_missed = 0;  // of replicas that had left, in updates that the others made
  // What the run has read, and an all-reduce would have sent, beyond what the present mesh would
  // have by now: earlier sessions may have had another number of replicas.
  int64_t shifted_sequences = 0;
  int64_t shifted_allreduce_bytes = 0;
};

// What one replica resumes from: its own weights, and flat buffers of the model's size.
struct ReplicaState {
  at::Tensor weights;
  Optimizer::State optimizer;                     // including averaging's buffers
  std::vector<std::vector<int64_t>> rounds = {};  // next round by stage, then by lane
};

struct ModelState {
  at::Tensor weights;  // the model: the mean of the replicas, flat, on the CPU
  std::vector<ReplicaState> replicas;
};

struct SavedRun {
  RunCounters counters;
  ModelShape shape;
  ModelState state;
};

Result<Path> save_run(const Path& checkpoints, const SavedRun& run, int64_t keep);

// Every byte is verified first. `with_optimizer` false: reads only the model and the counters, for
// evaluation and generation.
Result<SavedRun> load_run(const Path& checkpoint, bool with_optimizer);

}  // namespace leeway
