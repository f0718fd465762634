// Token ids of a microbatch, below a vocabulary of 11.
#pragma once

#include <ATen/ATen.h>

#include "base/rng.h"

namespace leeway {

inline at::Tensor tokens(int64_t m) {
  const at::Tensor ids = at::empty({2, 5}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const RandomKey key = {1, Stream::kSampler, static_cast<uint64_t>(m)};
    ids.view(-1)[i] = static_cast<int64_t>(random_bits(key, static_cast<uint64_t>(i)) % 11);
  }
  return ids;
}

}  // namespace leeway
