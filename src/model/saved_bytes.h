// How much memory a microbatch takes on a stage, from the shape alone: for plans made before
// anything is allocated. A test compares the first three functions with real tensors. Bytes are
// doubles: exact up to 9 PB, with no overflow if a typo in a recipe asks for more.
#pragma once

#include <cstdint>

#include "model/shape.h"

namespace leeway {

struct MicrobatchSize {
  int64_t tokens = 0;
  int64_t number_bytes = 4;  // size of the compute type: 2, 4 or 8
};

// A stage's input: token ids, or the previous stage's activations.
double input_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// StageSaved after a forward, including the input. Left out because they are small: a GPU's padding
// of odd head sizes and the random state of its attention kernels.
double saved_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// LossSaved and the targets; 0 if the stage has no head.
double loss_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// Transient buffers of a backward or of the loss. An estimate: the gradients inside one block, and
// the logits.
double passing_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

}  // namespace leeway
