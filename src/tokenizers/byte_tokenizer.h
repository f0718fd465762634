// Every byte is its own id.
#pragma once

#include "tokenizers/tokenizer.h"

namespace leeway {

class ByteTokenizer final : public Tokenizer {
 public:
  // Stands between documents and decodes to nothing; an id outside the vocabulary decodes to
  // U+FFFD.
  static constexpr TokenId kDocumentMarker = 256;

  Status encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  int64_t vocabulary() const override { return kDocumentMarker + 1; }
  std::optional<TokenId> document_marker() const override { return kDocumentMarker; }
  uint64_t hash() const override;
  std::string_view kind() const override { return "bytes"; }
  Status save(const Path& folder) const override;
  size_t last_safe_cut(std::string_view text) const override { return text.size(); }
};

}  // namespace leeway
