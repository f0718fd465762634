// Words that are a single token: the common case of encoding, which needs no merges. The table is
// constant after loading, so all threads share it; a cache of seen words would need a limit, an
// owner and a lock, and would find little more.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace leeway {

class WordTable {
 public:
  // `tokens` is the vocabulary, by id; it must outlive the table and not change.
  WordTable(const std::vector<std::string>& tokens, const std::vector<TokenId>& words);

  // `word` is not empty.
  std::optional<TokenId> find(std::string_view word) const {
    if (word.size() > size_max_) return std::nullopt;
    const uint64_t first = first_bytes(word);
    for (size_t slot = slot_of(first, word);; slot = (slot + 1) & mask_) {
      const Entry& entry = entries_[slot];
      if (entry.size == 0) return std::nullopt;
      if (entry.first == first && entry.size == word.size() &&
          (word.size() <= kFirst || tokens_[entry.id] == word)) {
        return entry.id;
      }
    }
  }

 private:
  // Most words fit into the first eight bytes, so comparing them touches only the entry.
  static constexpr size_t kFirst = 8;
  struct Entry {
    uint64_t first = 0;
    uint32_t size = 0;  // 0: free
    TokenId id = 0;
  };

  template <class Number>
  static uint64_t load(const char* bytes) {
    Number number = 0;
    std::memcpy(&number, bytes, sizeof number);
    return number;
  }
  // All bytes of a word of up to eight bytes, unique among words of the same size. Uses overlapping
  // loads, because a copy of unknown size would be a function call.
  static uint64_t first_bytes(std::string_view word) {
    const char* bytes = word.data();
    const size_t size = word.size();
    if (size >= kFirst) return load<uint64_t>(bytes);
    if (size >= 4) return load<uint32_t>(bytes) | load<uint32_t>(bytes + size - 4) << 32;
    return load<uint8_t>(bytes) | load<uint8_t>(bytes + size / 2) << 8 |
           load<uint8_t>(bytes + size - 1) << 16;
  }
  size_t slot_of(uint64_t first, std::string_view word) const {
    uint64_t last = word.size();
    if (word.size() > kFirst) {
      last += load<uint64_t>(word.data() + word.size() - kFirst) * 0xC2B2AE3D27D4EB4Fu;
    }
    return static_cast<size_t>(((first ^ last) * 0x9E3779B97F4A7C15u) >> 32) & mask_;
  }

  const std::vector<std::string>& tokens_;
  std::vector<Entry> entries_;
  size_t mask_ = 0;
  size_t size_max_ = 0;  // size of the longest word
};

}  // namespace leeway
