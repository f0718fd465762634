// Messages in transit, in reused slots: no allocation per message.
#pragma once

#include <utility>
#include <vector>

#include "worker/message.h"

namespace leeway::sim {

class MessagePool {
 public:
  size_t put(Message message) {
    if (free_.empty()) {
      slots_.push_back(std::move(message));
      return slots_.size() - 1;
    }
    const size_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(message);
    return slot;
  }
  Message take(size_t slot) {
    free_.push_back(slot);
    return std::move(slots_[slot]);
  }

 private:
  std::vector<Message> slots_;
  std::vector<size_t> free_;
};

}  // namespace leeway::sim
