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
  LEEWAY_CHECK(options.window_count > 0, "the data has no window: call check_windows() first");
  LEEWAY_CHECK(m.value >= 0, "microbatches are counted from 0");
  LEEWAY_CHECK(r.value >= 0 && r.value < options.replicas, "a replica outside the mesh");
  LEEWAY_CHECK(i >= 0 && i < options.microbatch, "a sequence outside the microbatch");
  // All replicas share one stream of sequences, or each has its own; an epoch is `windows`
  // sequences of it.
  const auto replicas = static_cast<uint64_t>(options.replicas);
  const auto replica = static_cast<uint64_t>(r.value);
  const uint64_t windows =
      options.own_parts ? options.window_count / replicas : options.window_count;
  LEEWAY_CHECK(windows > 0, "every replica needs a window: call check_windows() first");
  const int64_t line = options.own_parts ? m.value : m.value * options.replicas + r.value;
  const int64_t shift = options.own_parts ? 0 : options.shift;
  LEEWAY_CHECK(line * options.microbatch + shift >= 0, "the data goes on where the run was");
  const auto position = static_cast<uint64_t>(line * options.microbatch + i + shift);
  const uint64_t epoch = position / windows;
  const RandomKey key{.seed = options.seed,
                      .stream = Stream::kSampler,
                      .name = options.own_parts ? epoch * replicas + replica : epoch};
  const uint64_t window = KeyedPermutation(key, windows)(position % windows);
  return options.own_parts ? replica * windows + window : window;
}

}  // namespace leeway
