// Text to token ids and back. Bytes and byte-level BPE are exact: decode(encode(x)) == x for any
// bytes.
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

  // Appends the ids of `text`, which is plain text: names of special tokens in it are not special.
  // Thread-safe: one tokenizer serves all cores. Bytes and GPT-2 encode any text; a split pattern
  // can fail on one (regex_splitter.h), and then `ids` has some of its ids.
  virtual Status encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  // Takes any ids; one outside the vocabulary becomes U+FFFD (SentencePiece: its unknown piece).
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  virtual int64_t vocabulary() const = 0;
  // The id written between documents (GPT-2's <|endoftext|>); none: nothing is written.
  virtual std::optional<TokenId> document_marker() const = 0;
  // Hash of everything that decides the ids; equal hash = same tokenizer. Stored in token files and
  // checkpoints.
  virtual uint64_t hash() const = 0;
  // "bytes", "gpt2", "sentencepiece", "hf"
  virtual std::string_view kind() const = 0;
  // Writes what load_tokenizer("saved:FOLDER") needs, so that a data or run folder is
  // self-contained.
  virtual Status save(const Path& folder) const = 0;

  // The largest position <= text.size() where `text` may be cut so that encoding the two parts
  // gives the ids of the whole, no matter what text follows; 0 if there is none.
  virtual size_t last_safe_cut(std::string_view text) const = 0;
};

// spec: bytes | gpt2:DIR | sentencepiece:FILE | hf:FILE | saved:FOLDER
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& spec);

}  // namespace leeway
