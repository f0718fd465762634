// What the methods of averaging make of the other keys of their table: which defaults these have,
// and which of them have no say. resolve(), the checks and printing follow it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace leeway {

// The whole table for a recipe that names nothing but the method. What the method has no use for
// is at rest: a value that changes nothing where there is one.
AveragingOptions averaging_defaults(AveragingMethod method);

// Parts of a sentence: KEY does not go with DECIDED_BY, REASON: leave KEY out, or choose INSTEAD.
struct Idle {
  std::string_view decided_by;  // a key
  std::string_view reason;
  std::string instead;
};

// Why the key `path` has no say, or nothing; keys of other tables are never idle here.
std::optional<Idle> idle_averaging(std::string_view path, const AveragingOptions& averaging);

}  // namespace leeway
