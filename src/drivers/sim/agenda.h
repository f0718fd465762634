// The event queue of virtual time: earliest first, ties in the order of entry. Entries are small
// and live in one array, because a run of thousands of workers makes millions of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace leeway::sim {

enum class Happening : uint32_t {
  kFinished,      // a worker finished a piece of work; `subject`: the worker
  kArrived,       // a message arrived; `subject`: its slot
  kArrivedAgain,  // a copy of it
  kAwake,         // the pause that kept a worker from starting is over; `subject`: the worker
  kMissed,        // the coordinator hears that a worker is gone; `subject`: the worker
  kReturned,      // another worker fills this one's place; `subject`: the worker
  kStored,        // a state would be on disk now; `subject`: its worker
  kCoordinatorGone,
  kCoordinatorBack,
};

class Agenda {
 public:
  struct Entry {
    Nanos at;
    uint64_t sequence = 0;
    Happening what = Happening::kFinished;
    uint32_t subject = 0;
  };

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  Nanos earliest() const { return heap_.front().at; }
  uint64_t entered() const { return sequence_; }

  void enter(Nanos at, Happening what, size_t subject) {
    heap_.push_back({at, sequence_++, what, static_cast<uint32_t>(subject)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Entry take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Entry entry = heap_.back();
    heap_.pop_back();
    return entry;
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Entry> heap_;
  uint64_t sequence_ = 0;
};

}  // namespace leeway::sim
