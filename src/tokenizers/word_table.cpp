#include "tokenizers/word_table.h"

#include <algorithm>
#include <bit>

namespace leeway {

WordTable::WordTable(const std::vector<std::string>& tokens, const std::vector<TokenId>& words)
    : tokens_(tokens), entries_(std::bit_ceil(words.size() * 2 + 2)), mask_(entries_.size() - 1) {
  for (const TokenId id : words) {
    const std::string_view word = tokens_[id];
    const uint64_t first = first_bytes(word);
    size_t slot = slot_of(first, word);
    while (entries_[slot].size != 0) slot = (slot + 1) & mask_;
    entries_[slot] = {.first = first, .size = static_cast<uint32_t>(word.size()), .id = id};
    size_max_ = std::max(size_max_, word.size());
  }
}

}  // namespace leeway
