// What makes two recipes different runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"

namespace leeway {

struct Difference {
  std::string key;
  std::string first;  // as TOML
  std::string second;
  // A run that is going on may take the new value: a rate that was too high can be lowered.
  bool may_change = false;
  // Why it may not, where that is not plain from the key: a clause, or empty.
  std::string_view reason = {};
};

// The keys that decide a run's numbers and differ, in the order of the table. How a run is watched,
// saved and driven (evaluations, checkpoints, threads, the simulator) is not among them, nor what
// trades memory for time without changing a number (recompute). Nor, where both recipes drain the
// pipeline at every update, is the way it was filled: then no gradient is late, however many stages
// there are. Nor, where both have one replica, is the averaging that replicas would do.
std::vector<Difference> differences(const Recipe& a, const Recipe& b);

}  // namespace leeway
