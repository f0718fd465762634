// Byte-level BPE: the tokenizer of GPT-2, Llama 3 and most models since.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/bpe.h"
#include "tokenizers/byte_pair_model.h"
#include "tokenizers/splitter.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/word_table.h"

namespace leeway {

// Input is plain text: "<|endoftext|>" in a corpus becomes the ids of its characters, never the
// special token, so that text cannot end a document. Special tokens decode to their names, ids
// outside the vocabulary to U+FFFD.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Fails only if the model's split pattern is not supported.
  static Result<std::unique_ptr<Tokenizer>> create(BytePairModel model);

  Status encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }
  std::optional<TokenId> document_marker() const override { return model_.document_marker; }
  uint64_t hash() const override { return hash_; }
  std::string_view kind() const override { return model_.kind; }
  Status save(const Path& folder) const override;
  size_t last_safe_cut(std::string_view text) const override;

 private:
  BytePairTokenizer(BytePairModel model, std::unique_ptr<Splitter> splitter);
  std::vector<TokenId> one_token_words() const;

  BytePairModel model_;
  std::unique_ptr<Splitter> splitter_;
  Bpe bpe_;
  WordTable words_;
  uint64_t hash_ = 0;
};

}  // namespace leeway
