// Byte-pair encoding of one word: start from its bytes and keep merging the pair of lowest rank
// (the leftmost on a tie) until no neighbours can be merged.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace leeway {

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

// (left, right) -> (rank, merged): open addressing in one array, because encoding spends most of
// its time looking up pairs.
class PairTable {
 public:
  struct Entry {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;
    TokenId merged = 0;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  // The rank of a merge is its index; if a pair has two merges, the later one wins.
  explicit PairTable(std::span<const Merge> merges);
  // The entry of the pair, or one with rank kNoRank.
  const Entry& find(TokenId left, TokenId right) const {
    const uint64_t pair = pack(left, right);
    size_t slot = slot_of(pair);
    while (entries_[slot].pair != pair && entries_[slot].pair != kNoPair) slot = (slot + 1) & mask_;
    return entries_[slot];
  }

 private:
  static constexpr uint64_t kNoPair = UINT64_MAX;
  static uint64_t pack(TokenId left, TokenId right) { return uint64_t{left} << 32 | right; }
  size_t slot_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask_;
  }

  std::vector<Entry> entries_;
  size_t mask_ = 0;
};

class Bpe {
 public:
  // byte_ids[b] is the token of the single byte b.
  Bpe(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges);

  // Appends the ids of `word` (below 4 GiB) in O(n log n) steps.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  // Up to this length, searching all pairs for the best one is faster than a heap.
  static constexpr size_t kShort = 64;

  void encode_short(std::string_view word, std::vector<TokenId>& ids) const;
  void encode_long(std::string_view word, std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_ids_;
  PairTable pairs_;
};

}  // namespace leeway
