#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

#include "data/sampler.h"

namespace leeway {
namespace {

SamplerOptions any_options() {
  return {.seed = *rc::gen::arbitrary<uint64_t>(),
          .window_count = *rc::gen::inRange<uint64_t>(1, 500),
          .replicas = *rc::gen::inRange<int64_t>(1, 6),
          .microbatch = *rc::gen::inRange<int64_t>(1, 6)};
}

RC_GTEST_PROP(SamplerProperty, EveryWindowComesOncePerEpoch, ()) {
  const SamplerOptions options = any_options();
  const auto total = static_cast<int64_t>(options.window_count);
  const auto epoch = *rc::gen::inRange<int64_t>(0, 4);
  const int64_t per_step = options.replicas * options.microbatch;
  std::set<uint64_t> seen;
  for (int64_t position = epoch * total; position < (epoch + 1) * total; ++position) {
    const int64_t rest = position % per_step;
    const uint64_t window = window_at(options, {position / per_step}, {rest / options.microbatch},
                                      rest % options.microbatch);
    RC_ASSERT(window < options.window_count);
    RC_ASSERT(seen.insert(window).second);
  }
}

RC_GTEST_PROP(SamplerProperty, ReplicasAreDisjointWithinAnEpoch, ()) {
  const SamplerOptions options = any_options();
  const int64_t per_step = options.replicas * options.microbatch;
  const int64_t steps = static_cast<int64_t>(options.window_count) / per_step;
  std::set<uint64_t> seen;
  for (int64_t r = 0; r < options.replicas; ++r) {
    for (int64_t m = 0; m < steps; ++m) {
      for (int64_t i = 0; i < options.microbatch; ++i) {
        RC_ASSERT(seen.insert(window_at(options, {m}, {r}, i)).second);
      }
    }
  }
}

RC_GTEST_PROP(SamplerProperty, OwnPartsDoNotOverlapAndEachWindowComesOncePerEpoch, ()) {
  SamplerOptions options = any_options();
  options.own_parts = true;
  options.window_count += static_cast<uint64_t>(options.replicas);
  const auto part = static_cast<int64_t>(options.window_count) / options.replicas;
  const auto epoch = *rc::gen::inRange<int64_t>(0, 4);
  for (int64_t r = 0; r < options.replicas; ++r) {
    std::set<uint64_t> seen;
    for (int64_t position = epoch * part; position < (epoch + 1) * part; ++position) {
      const uint64_t window =
          window_at(options, {position / options.microbatch}, {r}, position % options.microbatch);
      RC_ASSERT(static_cast<int64_t>(window) / part == r);
      RC_ASSERT(seen.insert(window).second);
    }
  }
}

RC_GTEST_PROP(SamplerProperty, ManyReplicasReadWhatOneLargeOneReads, ()) {
  const SamplerOptions many = any_options();
  SamplerOptions one = many;
  one.replicas = 1;
  one.microbatch = many.replicas * many.microbatch;
  const MicrobatchId m{*rc::gen::inRange<int64_t>(0, 1'000'000)};
  for (int64_t r = 0; r < many.replicas; ++r) {
    for (int64_t i = 0; i < many.microbatch; ++i) {
      RC_ASSERT(window_at(many, m, {r}, i) == window_at(one, m, {0}, r * many.microbatch + i));
    }
  }
}

RC_GTEST_PROP(SamplerProperty, WindowsFillTheData, ()) {
  const auto tokens = *rc::gen::inRange<uint64_t>(0, 100'000);
  const auto context = *rc::gen::inRange<int64_t>(1, 600);
  const uint64_t count = window_count_of(tokens, context);
  const auto length = static_cast<uint64_t>(context);
  if (count > 0) RC_ASSERT(count * length + 1 <= tokens);  // the last one has all its targets
  RC_ASSERT((count + 1) * length + 1 > tokens);            // and one more would not
}

}  // namespace
}  // namespace leeway
