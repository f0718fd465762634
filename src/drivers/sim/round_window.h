// Values by round in one array: rounds ascend, nearly always without gaps, and the oldest are
// forgotten first. A run of thousands of workers looks rounds up millions of times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace leeway::sim {

template <class Value>
class RoundWindow {
 public:
  // Null: nothing is known about the round.
  const Value* find(int64_t round) const {
    const size_t at = place_of(round);
    return at < entries_.size() && entries_[at].round == round ? &entries_[at].value : nullptr;
  }
  Value& operator[](int64_t round) {
    const size_t at = place_of(round);
    if (at == entries_.size() || entries_[at].round != round) {
      entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(at), Entry{.round = round});
    }
    return entries_[at].value;
  }
  // Whether there was anything to forget.
  bool forget_before(int64_t round) {
    const size_t before = forgotten_;
    while (forgotten_ < entries_.size() && entries_[forgotten_].round < round) {
      entries_[forgotten_++].value = {};
    }
    const bool forgot = forgotten_ > before;
    if (2 * forgotten_ > entries_.size()) {  // rarely, because it moves all others
      entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(forgotten_));
      forgotten_ = 0;
    }
    return forgot;
  }

 private:
  struct Entry {
    int64_t round = 0;
    Value value = {};
  };
  // Where the round is, or belongs.
  size_t place_of(int64_t round) const {
    if (forgotten_ == entries_.size() || round > entries_.back().round) return entries_.size();
    const int64_t guess = round - entries_[forgotten_].round;  // right where there are no gaps
    if (guess >= 0 && guess < std::ssize(entries_) - static_cast<int64_t>(forgotten_)) {
      const size_t at = forgotten_ + static_cast<size_t>(guess);
      if (entries_[at].round == round) return at;
    }
    const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(forgotten_);
    const auto found = std::ranges::lower_bound(first, entries_.end(), round, {}, &Entry::round);
    return static_cast<size_t>(found - entries_.begin());
  }

  std::vector<Entry> entries_;  // ascending
  size_t forgotten_ = 0;        // how many of them
};

}  // namespace leeway::sim
