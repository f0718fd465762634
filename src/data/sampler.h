// Which window of the data a sequence is: a pure function of seed and counters (DESIGN section 2).
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace leeway {

struct SamplerOptions {
  uint64_t seed = 0;
  uint64_t window_count = 0;  // windows in the data: window_count_of()
  int64_t replicas = 1;
  int64_t microbatch = 1;  // sequences per microbatch and replica
  bool own_parts = false;  // the windows are cut into equal parts, one for each replica
};

// Windows of `context` inputs and their targets (shifted by one): window j holds tokens
// [j context, j context + context], so every token is a target once per epoch.
uint64_t window_count_of(uint64_t tokens, int64_t context);

// The window of sequence i of microbatch m of replica r. Over one epoch every window comes once;
// R replicas together read what one replica with R times the microbatch reads. With parts of their
// own each has its own epochs; what is left over by equal parts is never read.
uint64_t window_at(const SamplerOptions& options, MicrobatchId m, ReplicaId r, int64_t i);

}  // namespace leeway
