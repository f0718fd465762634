// Keys that recipes had once. A run's folder holds every key of its time, and must open.
#pragma once

#include <string>
#include <string_view>

#include "config/value.h"

namespace leeway {

struct FormerKey {
  std::string_view path;
  std::string_view now = {};     // the key that took its place, with the same values; empty: none
  std::string_view advice = {};  // how to say today what it said, unless it said nothing
};

// Null: never a key of ours.
const FormerKey* find_former_key(std::string_view path);
// Whether a former key without a successor asked for nothing.
bool said_nothing(const FormerKey& key, const Value& value);

}  // namespace leeway
