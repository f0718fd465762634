// A set of replicas, for example those that took part in a round.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace leeway {

class ReplicaSet {
 public:
  static constexpr int64_t kReplicasMax = 256;

  ReplicaSet() = default;
  static ReplicaSet of(ReplicaId replica) {
    ReplicaSet set;
    set.add(replica);
    return set;
  }
  // Replicas 0 to `count` - 1.
  static ReplicaSet first(int64_t count) {
    ReplicaSet set;
    for (int64_t r = 0; r < count; ++r) set.add({r});
    return set;
  }
  void add(ReplicaId replica) { word_of(replica) |= bit_of(replica); }
  void remove(ReplicaId replica) { word_of(replica) &= ~bit_of(replica); }
  bool contains(ReplicaId replica) const {
    return (words_[at(replica) / 64] & bit_of(replica)) != 0;
  }
  bool empty() const { return *this == ReplicaSet(); }
  int64_t size() const {
    int64_t size = 0;
    for (const uint64_t word : words_) size += std::popcount(word);
    return size;
  }
  // The member at this place in ascending order; `place` is below size().
  ReplicaId member(int64_t place) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      const int64_t here = std::popcount(words_[i]);
      if (place >= here) {
        place -= here;
        continue;
      }
      uint64_t rest = words_[i];
      while (place-- > 0) rest &= rest - 1;
      return {static_cast<int64_t>(i) * 64 + std::countr_zero(rest)};
    }
    LEEWAY_UNREACHABLE("a place among the members");
  }
  // Ascending.
  std::vector<ReplicaId> members() const {
    std::vector<ReplicaId> members;
    for (const ReplicaId replica : *this) members.push_back(replica);
    return members;
  }
  // The same without a vector. The set must not change meanwhile.
  class Iterator {
   public:
    explicit Iterator(const ReplicaSet& set) : set_(&set), rest_(set.words_[0]) { skip_empty(); }
    ReplicaId operator*() const {
      return {static_cast<int64_t>(word_) * 64 + std::countr_zero(rest_)};
    }
    Iterator& operator++() {
      rest_ &= rest_ - 1;
      skip_empty();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return rest_ == 0; }

   private:
    void skip_empty() {
      while (rest_ == 0 && word_ + 1 < set_->words_.size()) rest_ = set_->words_[++word_];
    }

    const ReplicaSet* set_;
    size_t word_ = 0;
    uint64_t rest_;
  };
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }
  bool has_all(const ReplicaSet& others) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((others.words_[i] & ~words_[i]) != 0) return false;
    }
    return true;
  }
  // For links between processes: one bit per replica.
  using Words = std::array<uint64_t, kReplicasMax / 64>;
  const Words& words() const { return words_; }
  static ReplicaSet of_words(const Words& words) {
    ReplicaSet set;
    set.words_ = words;
    return set;
  }
  bool operator==(const ReplicaSet&) const = default;

 private:
  static size_t at(ReplicaId replica) {
    LEEWAY_CHECK(replica.value >= 0 && replica.value < kReplicasMax, "replica id out of range");
    return static_cast<size_t>(replica.value);
  }
  static uint64_t bit_of(ReplicaId replica) { return uint64_t{1} << (at(replica) % 64); }
  uint64_t& word_of(ReplicaId replica) { return words_[at(replica) / 64]; }

  Words words_ = {};
};

}  // namespace leeway
