#include "tokenizers/bpe.h"

#include <bit>
#include <functional>
#include <queue>
#include <utility>

namespace leeway {

PairTable::PairTable(std::span<const Merge> merges)
    : entries_(std::bit_ceil(merges.size() * 2 + 2)), mask_(entries_.size() - 1) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t pair = pack(merge.left, merge.right);
    size_t slot = slot_of(pair);
    while (entries_[slot].pair != pair && entries_[slot].pair != kNoPair) slot = (slot + 1) & mask_;
    entries_[slot] = {.pair = pair, .rank = static_cast<uint32_t>(rank), .merged = merge.merged};
  }
}

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges)
    : byte_ids_(byte_ids), pairs_(merges) {}

void Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (word.size() <= kShort) {
    encode_short(word, ids);
  } else {
    encode_long(word, ids);
  }
}

void Bpe::encode_short(std::string_view word, std::vector<TokenId>& ids) const {
  // ranks[i] and merged[i] belong to the pair that starts at token i; the last token starts none.
  std::array<TokenId, kShort> tokens;
  std::array<uint32_t, kShort> ranks;
  std::array<TokenId, kShort> merged;
  const auto look_up = [&](size_t i) {
    const PairTable::Entry& entry = pairs_.find(tokens[i], tokens[i + 1]);
    ranks[i] = entry.rank;
    merged[i] = entry.merged;
  };
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) tokens[i] = byte_ids_[static_cast<unsigned char>(word[i])];
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == PairTable::kNoRank) break;
    tokens[best] = merged[best];
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      tokens[i] = tokens[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

namespace {

// The tokens of a long word as a linked list in arrays: merging leaves holes, nothing moves.
struct TokenList {
  static constexpr uint32_t kEnd = UINT32_MAX;
  std::vector<TokenId> token;
  std::vector<uint32_t> next;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> rank;  // rank of the pair that starts here; kNoRank: none, or merged away
};

// Orders by rank, then by position: the smallest key is merged first.
uint64_t heap_key(uint32_t rank, uint32_t position) { return uint64_t{rank} << 32 | position; }

using Heap = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

}  // namespace

void Bpe::encode_long(std::string_view word, std::vector<TokenId>& ids) const {
  LEEWAY_CHECK(word.size() < TokenList::kEnd, "a word of 4 GiB must be split before it is encoded");
  const auto count = static_cast<uint32_t>(word.size());
  TokenList list;
  list.token.resize(count);
  list.next.resize(count);
  list.previous.resize(count);
  list.rank.resize(count, PairTable::kNoRank);
  std::vector<uint64_t> keys;
  keys.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    list.token[i] = byte_ids_[static_cast<unsigned char>(word[i])];
    list.next[i] = i + 1 < count ? i + 1 : TokenList::kEnd;
    list.previous[i] = i > 0 ? i - 1 : TokenList::kEnd;
  }
  for (uint32_t i = 0; i + 1 < count; ++i) {
    list.rank[i] = pairs_.find(list.token[i], list.token[i + 1]).rank;
    if (list.rank[i] != PairTable::kNoRank) keys.push_back(heap_key(list.rank[i], i));
  }
  Heap heap(std::greater<>(), std::move(keys));
  const auto look_up = [&](uint32_t i) {
    const uint32_t after = list.next[i];
    list.rank[i] = after == TokenList::kEnd ? PairTable::kNoRank
                                            : pairs_.find(list.token[i], list.token[after]).rank;
    if (list.rank[i] != PairTable::kNoRank) heap.push(heap_key(list.rank[i], i));
  };
  while (!heap.empty()) {
    const uint64_t key = heap.top();
    heap.pop();
    const auto left = static_cast<uint32_t>(key);
    // A key is stale if its pair has changed since; the changed pair has its own key.
    if (list.rank[left] != static_cast<uint32_t>(key >> 32)) continue;
    const uint32_t right = list.next[left];
    list.token[left] = pairs_.find(list.token[left], list.token[right]).merged;
    list.rank[right] = PairTable::kNoRank;
    list.next[left] = list.next[right];
    if (list.next[left] != TokenList::kEnd) list.previous[list.next[left]] = left;
    look_up(left);
    if (list.previous[left] != TokenList::kEnd) look_up(list.previous[left]);
  }
  for (uint32_t i = 0; i != TokenList::kEnd; i = list.next[i]) ids.push_back(list.token[i]);
}

}  // namespace leeway
