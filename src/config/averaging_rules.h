// What the averaging method means for the other keys of its table: their defaults, and which of
// them it ignores. resolve(), the checks and printing use this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace leeway {

// The whole table for a recipe that only gives the method. Keys that the method ignores get a
// neutral value if there is one.
AveragingOptions averaging_defaults(AveragingMethod method);

// So few that only lowbit makes up for what they lose.
constexpr bool has_few_bits(WireFormat wire) {
  return wire == WireFormat::kInt4 || wire == WireFormat::kTernary;
}

// averaging.lag in backwards: a merge comes after a whole number of them. None: it is no such
// number (thirds may be written with three digits).
std::optional<int64_t> lag_backwards(const Recipe& recipe);

// Parts of the sentence "KEY does not go with DECIDED_BY, REASON: leave KEY out, or choose
// INSTEAD".
struct Idle {
  std::string_view decided_by;  // a key
  std::string_view reason;
  std::string instead;
};

// Why the key `path` has no effect; nothing if it has one or belongs to another table.
std::optional<Idle> idle_averaging(std::string_view path, const AveragingOptions& averaging);

}  // namespace leeway
