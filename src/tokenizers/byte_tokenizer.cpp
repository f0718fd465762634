#include "tokenizers/byte_tokenizer.h"

#include "base/hash.h"
#include "tokenizers/saved_tokenizer.h"
#include "tokenizers/unicode.h"

namespace leeway {

Status ByteTokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    ids[before + i] = static_cast<unsigned char>(text[i]);
  }
  return {};
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < kDocumentMarker) text += static_cast<char>(id);
    if (id > kDocumentMarker) text += kReplacementUtf8;
  }
  return text;
}

uint64_t ByteTokenizer::hash() const { return hash_text("bytes, marker 256"); }

Status ByteTokenizer::save(const Path& folder) const {
  return save_tokenizer(*this, folder, "", "");
}

}  // namespace leeway
