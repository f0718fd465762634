// What a microbatch costs in memory on a stage, from the shape alone: for plans that are made
// before anything is allocated. A test holds the first three against the tensors themselves. Bytes
// are doubles: exact up to 9 PB, and no overflow beyond, where a slip in a recipe may lead.
#pragma once

#include <cstdint>

#include "model/shape.h"

namespace leeway {

// Of one microbatch.
struct MicrobatchSize {
  int64_t tokens = 0;
  int64_t number_bytes = 4;  // of the compute type: 2, 4 or 8
};

// What a stage is given: token ids, or the activations of the stage before.
double input_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// StageSaved after a forward, the input included. Left out as too small: a GPU's padding of odd
// head sizes and the random state of its attention kernels.
double saved_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// LossSaved and the targets; nothing where the stage has no head.
double loss_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// What a backward, or the loss, needs beside what was saved and gives back when it is done. An
// estimate: the gradients inside one block, and the logits.
double passing_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

}  // namespace leeway
