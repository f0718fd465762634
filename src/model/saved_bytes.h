// How much memory a microbatch takes on a stage, from the shape alone: for plans made before
// anything is allocated. Tests compare them with real tensors, and with the peak of real stages.
// Bytes are doubles: exact up to 9 PB, with no overflow if a typo in a recipe asks for more.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "model/shape.h"

namespace leeway {

struct MicrobatchSize {
  int64_t tokens = 0;
  int64_t number_bytes = 4;  // size of the compute type: 2, 4 or 8
  at::Device device = at::kCPU;
};

// A stage's input: token ids, or the previous stage's activations.
double input_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// StageSaved after a forward, including the input. Left out because it is small: the random state
// of a GPU's attention kernels.
double saved_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// The targets, and what the head takes; 0 if the stage has none.
double head_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// What the head and the loss take while they are made: logits of some rows at a time; 0 likewise.
double loss_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

// The most that a forward or a backward holds in addition: gradients inside one block, logits, the
// embedding's gradient. What the backward has freed by then is taken off.
double passing_bytes(const ModelShape& shape, const StageSlice& slice, const MicrobatchSize& size);

}  // namespace leeway
