// Keeps what workers save in memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "worker/shard_store.h"

namespace leeway {

class MemoryStore final : public ShardStore {
 public:
  Result<Stored> store(const StageState& state) override {
    states.push_back(state);
    return Stored{};
  }
  std::shared_ptr<const StageState> newest_of(WorkerId worker) override {
    const auto newest = std::find_if(states.rbegin(), states.rend(), [&](const StageState& state) {
      return state.worker == worker;
    });
    return newest == states.rend() ? nullptr : std::make_shared<const StageState>(*newest);
  }
  // In the order of workers.
  std::vector<StageState> states_at(int64_t update) const {
    std::vector<StageState> found;
    for (const StageState& state : states) {
      if (state.update == update) found.push_back(state);
    }
    std::ranges::sort(found, {}, &StageState::worker);
    return found;
  }

  std::vector<StageState> states;
};

}  // namespace leeway
