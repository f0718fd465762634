// One worker's part of a checkpoint, in one safetensors file: its weights, the buffers of optimizer
// and averaging, and in the metadata where it was. The process that has the worker writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "averaging/sent_steps.h"
#include "base/chunk_position.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "optim/optimizer.h"

namespace leeway {

struct Shard {
  WorkerId worker;
  int64_t update = 0;
  at::Tensor weights;                // flat
  Optimizer::State optimizer = {};   // including averaging's buffers
  std::vector<int64_t> rounds = {};  // the next one, by lane
  // Of a common model: where its chunks are, and the worker's own contributions under way.
  std::vector<ChunkPosition> chunks = {};
  std::vector<SentSteps> sent = {};
};

std::string shard_name(WorkerId worker);  // replica-0.stage-1.safetensors

// All or nothing, and on disk when it returns.
Status write_shard(const Path& path, const Shard& shard);
Result<Shard> read_shard(const Path& path);

// A shard's weights without a copy: they are there for as long as `tensors` is, and only to read.
struct ShardWeights {
  MappedTensors tensors;
  at::Tensor weights;
  at::Tensor common = {};  // the worker's copy of the common model; undefined: there is none
  std::vector<ChunkPosition> chunks = {};
};
Result<ShardWeights> map_shard_weights(const Path& path);

}  // namespace leeway
