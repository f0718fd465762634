// How late the means of replicas will be merged on given links, and which number of microbatches
// per update would make that at most half an update.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/recipe.h"

namespace leeway {

// A mean is merged after the next microbatch, so a round trip that takes so many microbatches is a
// smaller part of an update that has more of them. None: the lag is at most half an update already,
// or the recipe says itself when means are merged.
std::optional<std::string> lag_advice(const Recipe& recipe, double lag);

// With simulated links, for `config check`: the lag to expect, and that advice. Empty: replicas do
// not merge on arrival, or links are not simulated.
std::string lag_report(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
