// Which window of the data a sequence is: a pure function of seed and counters.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace leeway {

struct SamplerOptions {
  uint64_t seed = 0;
  uint64_t window_count = 0;  // windows in the data: window_count_of()
  int64_t replicas = 1;
  int64_t microbatch = 1;  // sequences per microbatch and replica
  bool own_parts = false;  // splits the windows into equal parts, one for each replica
  // Sequences read beyond what this many replicas would have: the run once had another number.
  int64_t shift = 0;  // not with own_parts
};

// Number of windows of `context` inputs and their targets (shifted by one): window j has tokens
// [j context, j context + context], so every token is a target once per epoch.
uint64_t window_count_of(uint64_t tokens, int64_t context);

// The window of sequence i of microbatch m of replica r. In one epoch every window comes once; R
// replicas together read the same as one replica with R times the microbatch. With own_parts each
// replica has its own epochs, and windows left over by the equal parts are never read.
uint64_t window_at(const SamplerOptions& options, MicrobatchId m, ReplicaId r, int64_t i);

}  // namespace leeway
