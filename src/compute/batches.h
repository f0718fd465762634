// Windows of a token file as tensors: inputs for the first stage, targets for the last.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "data/sampler.h"
#include "data/token_file.h"

namespace leeway {

struct Batch {
  at::Tensor inputs;   // [sequences, context], 64-bit ids
  at::Tensor targets;  // the same shifted by one
};

// Reads the windows with these numbers, in this order.
Batch read_windows(const TokenFile& tokens, int64_t context, std::span<const uint64_t> windows,
                   const at::Device& device);

// Microbatch m of replica r, as chosen by the sampler.
Batch read_microbatch(const TokenFile& tokens, int64_t context, const SamplerOptions& sampler,
                      MicrobatchId m, ReplicaId r, const at::Device& device);

}  // namespace leeway
