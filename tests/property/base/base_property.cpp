#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/rng.h"

namespace leeway {
namespace {

RandomKey any_key() {
  return {.seed = *rc::gen::arbitrary<uint64_t>(),
          .stream = *rc::gen::element(Stream::kWeights, Stream::kSampler, Stream::kGenerate),
          .name = *rc::gen::arbitrary<uint64_t>()};
}

RC_GTEST_PROP(KeyedPermutationProperty, IsABijection, ()) {
  const auto count = *rc::gen::inRange<uint64_t>(1, 5000);
  const KeyedPermutation permutation(any_key(), count);
  std::vector<bool> seen(count, false);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t image = permutation(i);
    RC_ASSERT(image < count);
    RC_ASSERT(!seen[image]);
    seen[image] = true;
  }
}

RC_GTEST_PROP(KeyedPermutationProperty, StaysInsideLargeCounts, ()) {
  const auto count = *rc::gen::inRange<uint64_t>(1, uint64_t{1} << 62);
  const KeyedPermutation permutation(any_key(), count);
  const auto position = *rc::gen::inRange<uint64_t>(0, count);
  RC_ASSERT(permutation(position) < count);
}

RC_GTEST_PROP(RngProperty, IsAFunctionOfItsArguments, ()) {
  const RandomKey key = any_key();
  const auto counter = *rc::gen::arbitrary<uint64_t>();
  const uint64_t bits = random_bits(key, counter);
  RC_ASSERT(random_bits(key, counter ^ 1) != bits);  // a key never gives the same number twice
  RC_ASSERT(random_bits(key, counter) == bits);
}

RC_GTEST_PROP(HashProperty, PiecesHashLikeTheWhole, ()) {
  const auto pieces = *rc::gen::arbitrary<std::vector<std::string>>();
  StreamingHash streaming;
  std::string whole;
  for (const std::string& piece : pieces) {
    streaming.add(as_bytes(piece));
    whole += piece;
  }
  RC_ASSERT(streaming.digest() == hash_text(whole));
}

RC_GTEST_PROP(FilesProperty, WhatIsWrittenIsRead, ()) {
  const TemporaryFolder folder;
  const auto text = *rc::gen::arbitrary<std::string>();
  RC_ASSERT(write_atomically(folder / "a", text).ok());
  RC_ASSERT(*read_text(folder / "a") == text);
  const auto mapped = MappedFile::open(folder / "a");
  RC_ASSERT(mapped.ok());
  RC_ASSERT(hash_bytes(mapped->bytes()) == hash_text(text));
}

}  // namespace
}  // namespace leeway
