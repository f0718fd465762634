// A run on disk: what a checkpoint contains, and how a run resumes from it.
//
//   config.json, model.safetensors   the model as Hugging Face opens it: the common model, or the
//                                    mean of the replicas
//   replica-R.stage-S.safetensors    the shard of one worker (shard.h)
//   state.json                       the counters of the run
//
// Folders of earlier versions (format 1) have state.safetensors in place of shards: the optimizer's
// flat buffers; with several replicas, the weights and buffers of each, as replica.N.NAME. They are
// read like the others.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "averaging/sent_steps.h"
#include "base/chunk_position.h"
#include "base/files.h"
#include "base/result.h"
#include "checkpoint/manifest.h"
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

// As state.json of a checkpoint has them.
std::string counters_text(const RunCounters& counters);
Result<RunCounters> counters_from(const std::string& text);

// What one replica resumes from: its own weights, and flat buffers of the model's size.
struct ReplicaState {
  at::Tensor weights;
  Optimizer::State optimizer;                     // including averaging's buffers
  std::vector<std::vector<int64_t>> rounds = {};  // next round by stage, then by lane
  // Of a common model, by stage, as in a shard; empty: there is none, or nobody knows any more.
  std::vector<std::vector<ChunkPosition>> chunks = {};
  std::vector<std::vector<SentSteps>> sent = {};
};

struct ModelState {
  at::Tensor weights;  // the model: the common one or the mean of the replicas, flat, on the CPU
  std::vector<ReplicaState> replicas;
};

struct SavedRun {
  RunCounters counters;
  ModelShape shape;
  ModelState state;
  // Replicas that were not in the checkpoint: copies of the first that was.
  std::vector<int64_t> cloned = {};
};

// Writes all of it as a checkpoint, cut into `stages`.
Result<Path> save_run(const Path& checkpoints, const SavedRun& run, int64_t keep, int64_t stages);

// A run whose workers have written their shards: files that are on this disk already.
struct ShardFile {
  Path path;
  uint64_t hash = 0;
  ManifestShard place;  // the name is given to it
};
struct ShardedRun {
  int64_t number = 0;  // of the checkpoint
  RunCounters counters;
  ModelShape shape;
  ManifestMesh mesh;              // without its shards
  std::vector<ShardFile> shards;  // whole replicas, stage after stage
};
struct JoinedRun {
  Path path;
  uint64_t weights_hash = 0;  // of the model
};
// A checkpoint of these shards; one of the same number is replaced in one step.
Result<JoinedRun> join_shards(const Path& checkpoints, const ShardedRun& run, int64_t keep);

// Every byte is verified first. `with_optimizer` false: reads only the model and the counters, for
// evaluation and generation.
Result<SavedRun> load_run(const Path& checkpoint, bool with_optimizer);

}  // namespace leeway
