// Where a worker's copy of one chunk of a common model is: which answers are in it, and which
// contributions. Every copy with the same position has the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"

namespace leeway {

// A contribution to a common model: its sender, and the sender's own number for it.
struct PartId {
  ReplicaId replica;
  int64_t number = 0;
  auto operator<=>(const PartId&) const = default;
};

// Which contributions of one replica are in a chunk: of those that are older than kKept, nobody
// knows any more.
struct CountedParts {
  static constexpr int64_t kKept = 64;
  ReplicaId replica;
  int64_t newest = 0;
  uint64_t before = 0;  // bit i: number newest - i is in it

  bool has(int64_t number) const {
    const int64_t age = newest - number;
    return age >= 0 && age < kKept && (before >> age & 1U) != 0;
  }
  bool knows(int64_t number) const { return number > newest - kKept; }
  void add(int64_t number) {
    const int64_t ahead = number - newest;
    if (ahead > 0) {
      before = ahead < kKept ? before << ahead | 1U : 1U;
      newest = number;
    } else if (-ahead < kKept) {
      before |= uint64_t{1} << -ahead;
    }
  }
  bool operator==(const CountedParts&) const = default;
};

struct ChunkPosition {
  int64_t values = 0;                      // in the chunk
  int64_t answer = 0;                      // the newest in it
  uint64_t chain = 0;                      // a hash of all that are in it
  std::vector<CountedParts> counted = {};  // ascending replicas

  const CountedParts* find(ReplicaId replica) const {
    const auto found = std::ranges::find(counted, replica, &CountedParts::replica);
    return found == counted.end() ? nullptr : &*found;
  }
  void count(const PartId& part) {
    const auto at = std::ranges::lower_bound(counted, part.replica, {}, &CountedParts::replica);
    const bool there = at != counted.end() && at->replica == part.replica;
    (there ? at : counted.insert(at, {.replica = part.replica}))->add(part.number);
  }
  bool operator==(const ChunkPosition&) const = default;
};

// Whether counting can have reached what a file or a message says: then no sum overflows.
inline bool is_count(int64_t number) { return number >= 0 && number < int64_t{1} << 56; }
inline bool is_sound(const std::vector<CountedParts>& counted) {
  const auto ascends = [](const CountedParts& a, const CountedParts& b) {
    return a.replica < b.replica;
  };
  return std::ranges::all_of(counted,
                             [](const CountedParts& parts) {
                               return is_count(parts.replica.value) && is_count(parts.newest);
                             }) &&
         std::ranges::adjacent_find(counted, std::not_fn(ascends)) == counted.end();
}
inline bool is_sound(const ChunkPosition& chunk) {
  return is_count(chunk.values) && is_count(chunk.answer) && is_sound(chunk.counted);
}

// How many values they have together, and whether two models are cut in the same way.
inline int64_t values_of(const std::vector<ChunkPosition>& chunks) {
  int64_t values = 0;
  for (const ChunkPosition& chunk : chunks) values += chunk.values;
  return values;
}
inline bool same_cut(const std::vector<ChunkPosition>& one,
                     const std::vector<ChunkPosition>& other) {
  return std::ranges::equal(one, other, {}, &ChunkPosition::values, &ChunkPosition::values);
}

// The newest contribution of this replica that is in any of them; 0: none.
inline int64_t newest_counted(const std::vector<ChunkPosition>& chunks, ReplicaId replica) {
  int64_t newest = 0;
  for (const ChunkPosition& chunk : chunks) {
    const CountedParts* const own = chunk.find(replica);
    if (own != nullptr) newest = std::max(newest, own->newest);
  }
  return newest;
}

inline std::vector<int64_t> answers_of(const std::vector<ChunkPosition>& chunks) {
  std::vector<int64_t> answers;
  for (const ChunkPosition& chunk : chunks) answers.push_back(chunk.answer);
  return answers;
}

}  // namespace leeway
