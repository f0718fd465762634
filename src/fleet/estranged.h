// Pairs of processes that cannot hear each other, though the host hears both: by what they say. If
// they need each other, neither can go on; in the end the host has to part with one of them.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/time.h"
#include "fleet/directory.h"

namespace leeway {

class Estranged {
 public:
  explicit Estranged(Nanos patience) : patience_(patience) {}

  void lost(ProcessId one, ProcessId other, Nanos now) {
    pairs_.try_emplace(std::minmax(one, other), now);
  }
  void heard(ProcessId one, ProcessId other) { pairs_.erase(std::minmax(one, other)); }
  void leave(ProcessId process) {
    std::erase_if(pairs_, [&](const auto& pair) {
      return pair.first.first == process || pair.first.second == process;
    });
  }
  // The one to part with: who has lost most of those that it needs, of two alike the one with the
  // larger id. None: all can be patient.
  std::optional<ProcessId> to_part_with(const Directory& directory, Nanos now) const {
    std::map<ProcessId, int64_t> losses;
    bool late = false;
    for (const auto& [pair, since] : pairs_) {
      const Member* const one = directory.find(pair.first);
      const Member* const other = directory.find(pair.second);
      if (one == nullptr || other == nullptr || !need_each_other(*one, *other)) continue;
      late = late || now - since >= patience_;
      ++losses[pair.first];
      ++losses[pair.second];
    }
    if (!late) return std::nullopt;
    return std::ranges::max_element(losses, {},
                                    [](const auto& of) { return std::pair(of.second, of.first); })
        ->first;
  }

 private:
  // Stages of one replica send each other activations, a stage of two replicas its averages.
  static bool need_each_other(const Member& one, const Member& other) {
    return std::ranges::any_of(one.places, [&](const Place& here) {
      return std::ranges::any_of(other.places, [&](const Place& there) {
        return here.worker.replica == there.worker.replica ||
               here.worker.stage == there.worker.stage;
      });
    });
  }

  Nanos patience_;
  std::map<std::pair<ProcessId, ProcessId>, Nanos> pairs_;  // since when, the smaller id first
};

}  // namespace leeway
