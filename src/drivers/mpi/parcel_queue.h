// Parcels of one class that wait for one rank, first come, first served; one with a slot takes the
// place of an older one from the same sender to the same receiver.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <tuple>
#include <utility>

#include "drivers/mpi/parcel_header.h"

namespace leeway::mpi {

class ParcelQueue {
 public:
  bool empty() const { return waiting_.empty(); }

  // False: an older one gave its place, so that no more wait than before.
  bool put(Addressed addressed) {
    if (addressed.parcel.slot != 0) {
      const auto [entry, is_first] = slots_.try_emplace(slot_of(addressed), waiting_.end());
      if (!is_first) {
        *entry->second = std::move(addressed);
        return false;
      }
      entry->second = waiting_.insert(waiting_.end(), std::move(addressed));
      return true;
    }
    waiting_.push_back(std::move(addressed));
    return true;
  }

  Addressed take() {
    Addressed first = std::move(waiting_.front());
    if (first.parcel.slot != 0) slots_.erase(slot_of(first));
    waiting_.pop_front();
    return first;
  }

 private:
  using Slot = std::tuple<ProcessId, ProcessId, uint64_t>;
  static Slot slot_of(const Addressed& addressed) {
    return {addressed.from, addressed.to, addressed.parcel.slot};
  }

  std::list<Addressed> waiting_;
  std::map<Slot, std::list<Addressed>::iterator> slots_;
};

}  // namespace leeway::mpi
