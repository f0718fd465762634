#include "data/sampler.h"

#include "base/check.h"
#include "base/rng.h"

namespace leeway {

uint64_t window_count_of(uint64_t tokens, int64_t context) {
  LEEWAY_CHECK(context > 0, "a window has at least one input");
  const auto length = static_cast<uint64_t>(context);
  // The last window needs one token more than its inputs: the target of the last input.
  return tokens <= length ? 0 : (tokens - 1) / length;
}

uint64_t window_at(const SamplerOptions& options, MicrobatchId m, ReplicaId r, int64_t i) {
  LEEWAY_CHECK(options.window_count > 0, "the data has no window: check_windows() comes first");
  LEEWAY_CHECK(m.value >= 0, "microbatches are counted from 0");
  LEEWAY_CHECK(r.value >= 0 && r.value < options.replicas, "a replica outside the mesh");
  LEEWAY_CHECK(i >= 0 && i < options.microbatch, "a sequence outside the microbatch");
  // One line of sequences for all replicas; each epoch cuts a stretch of window_count from it.
  const auto position =
      static_cast<uint64_t>((m.value * options.replicas + r.value) * options.microbatch + i);
  const uint64_t epoch = position / options.window_count;
  const RandomKey key{.seed = options.seed, .stream = Stream::kSampler, .name = epoch};
  return KeyedPermutation(key, options.window_count)(position % options.window_count);
}

}  // namespace leeway
