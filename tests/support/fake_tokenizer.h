// A configurable tokenizer: an id is its byte plus an offset, and cuts are allowed only after
// spaces (or nowhere), so that a test sees at once what was cut and where.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

class FakeTokenizer final : public Tokenizer {
 public:
  // If set, each encode() starts with this id, so that cuts can be counted.
  std::optional<TokenId> begin_id;
  std::optional<TokenId> marker = 256;
  TokenId offset = 0;
  int64_t size = 257;
  bool cuts = true;

  Status encode(std::string_view text, std::vector<TokenId>& ids) const override {
    if (begin_id) ids.push_back(*begin_id);
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte) + offset);
    return {};
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += static_cast<char>(id - offset);
    return text;
  }
  int64_t vocabulary() const override { return size; }
  std::optional<TokenId> document_marker() const override { return marker; }
  uint64_t hash() const override { return hash_text("fake", offset); }
  std::string_view kind() const override { return "fake"; }
  Status save(const Path& folder) const override {
    return write_atomically(folder / "fake.json", "{}");
  }
  size_t last_safe_cut(std::string_view text) const override {
    return cuts ? text.rfind(' ') + 1 : 0;  // npos + 1 is 0: no cut
  }
};

}  // namespace leeway
