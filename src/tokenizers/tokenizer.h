// Text to token ids and back. Every tokenizer here is exact: decode(encode(x)) == x for bytes and
// byte-level BPE, whatever the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

using TokenId = uint32_t;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, which is plain text: the names of special tokens in it mean nothing.
  // Thread-safe: one tokenizer serves all cores.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  // Any ids: one outside the vocabulary becomes U+FFFD (SentencePiece: its unknown piece).
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  virtual int64_t vocabulary() const = 0;
  // The id written between documents (<|endoftext|> of GPT-2); none: nothing is written.
  virtual std::optional<TokenId> document_marker() const = 0;
  // Of everything that decides the ids; equal hash = same tokenizer. Stored in token files and
  // checkpoints.
  virtual uint64_t hash() const = 0;
  // "bytes", "gpt2", "sentencepiece", "hf"
  virtual std::string_view kind() const = 0;
  // Writes what load_tokenizer("saved:FOLDER") needs, so that a data or run folder stands alone.
  virtual Status save(const Path& folder) const = 0;

  // The largest position <= text.size() where `text` may be cut so that encoding the two parts
  // gives the ids of the whole, whatever text comes after; 0 if there is none.
  virtual size_t last_safe_cut(std::string_view text) const = 0;
};

// spec: bytes | gpt2:DIR | sentencepiece:FILE | hf:FILE | saved:FOLDER
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& spec);

}  // namespace leeway
