// Shared by the worker's tests: token files made on the fly, and the recipe of a tiny run.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "config/recipe.h"
#include "data/token_file.h"
#include "temporary_folder.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

inline constexpr int64_t kVocabulary = 257;  // the bytes tokenizer's

// Ids 0, 7, 14, ... modulo the vocabulary: windows differ from each other.
class Tokens {
 public:
  explicit Tokens(uint64_t count) : file_(write(folder_ / "a.tokens", count)) {}
  const TokenFile& file() const { return file_; }

 private:
  static TokenFile write(const Path& path, uint64_t count) {
    std::vector<TokenId> ids;
    for (uint64_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(i * 7 % kVocabulary));
    const auto tokenizer = load_tokenizer("bytes");
    auto writer = TokenFileWriter::create(path, **tokenizer);
    EXPECT_TRUE(writer->append(ids).ok());
    EXPECT_TRUE(writer->commit(/*documents=*/1, /*text_bytes=*/2 * count).ok());
    return std::move(TokenFile::open(path)).value();
  }

  TemporaryFolder folder_;
  TokenFile file_;
};

// fp64, so that the order of summation does not matter.
inline Recipe tiny_recipe() {
  at::set_num_threads(1);  // these tensors are tiny: a second thread only waits
  Recipe recipe;
  recipe.run.updates = 6;
  recipe.run.precision = Precision::kFp64;
  recipe.model.layers = 2;
  recipe.model.width = 8;
  recipe.model.heads = 2;
  recipe.model.kv_heads = 2;
  recipe.model.hidden = 12;
  recipe.model.context = 8;
  recipe.model.bias = false;
  recipe.data.batch = 4;
  recipe.optimizer.name = UpdateRule::kAdamW;
  recipe.optimizer.warmup = 2;
  recipe.pipeline.update_every = 1;
  return recipe;
}

// A recipe as load_recipe() would resolve it.
inline Recipe mesh_recipe(int64_t stages, int64_t update_every) {
  Recipe recipe = tiny_recipe();
  recipe.model.layers = 4;
  recipe.mesh.stages = stages;
  recipe.pipeline.update_every = update_every;
  recipe.pipeline.lookahead = Lookahead::kNone;
  recipe.pipeline.refresh = 2;
  return recipe;
}

}  // namespace leeway
