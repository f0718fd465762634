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
  // A resumed run may take the new value: a rate that was too high can be lowered.
  bool may_change = false;
  // Why it may not, as a clause; empty if the key makes it obvious.
  std::string_view reason = {};
};

// The keys that differ and affect the result of the run, in the order of the table. Left out are:
// - how a run is watched, saved and driven (evaluations, kept checkpoints, threads, the simulator);
// - keys that trade memory for time without changing a result (recompute, stash_on, graphs);
// - keys that decide delays, if both recipes drain the pipeline at every update: then no gradient
//   is late, however many stages there are;
// - the keys of [averaging], if both recipes have one replica.
std::vector<Difference> differences(const Recipe& a, const Recipe& b);

}  // namespace leeway
