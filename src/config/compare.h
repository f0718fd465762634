// What makes two recipes different runs.
#pragma once

#include <string>
#include <vector>

#include "config/recipe.h"

namespace leeway {

struct Difference {
  std::string key;
  std::string first;  // as TOML
  std::string second;
  // A run that is going on may take the new value: a rate that was too high can be lowered.
  bool may_change = false;
};

// The keys that decide a run's numbers and differ, in the order of the table. How a run is watched
// and saved (evaluations, checkpoints, threads, stages) is not among them.
std::vector<Difference> differences(const Recipe& a, const Recipe& b);

}  // namespace leeway
