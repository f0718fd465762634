// Messages that a worker or the coordinator did not take, counted by sender, kind and reason until
// they are logged. Bounded: a flood of bad messages costs no memory.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/message.h"

namespace leeway {

struct RefusedMessage {
  WorkerId at;
  WorkerId from;
  MessageKind kind = MessageKind::kActivation;
  std::string_view reason;  // a literal
  int64_t count = 0;
};

class RefusedMessages {
 public:
  void add(const Message& message, std::string_view reason) {
    ++total_;
    const Key key = {message.from, message.kind, reason};
    if (counts_.size() < kKeysMax || counts_.contains(key)) ++counts_[key];
  }
  bool empty() const { return counts_.empty(); }
  int64_t total() const { return total_; }
  std::vector<RefusedMessage> take(WorkerId at) {
    std::vector<RefusedMessage> all;
    for (const auto& [key, count] : std::exchange(counts_, {})) {
      all.push_back({at, std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
    }
    return all;
  }

 private:
  using Key = std::tuple<WorkerId, MessageKind, std::string_view>;
  static constexpr size_t kKeysMax = 64;
  std::map<Key, int64_t> counts_;
  int64_t total_ = 0;
};

}  // namespace leeway
