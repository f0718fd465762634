// Describes what the replicas of a recipe will send each other: the report for `config check`, the
// notes for `train` too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load.h"

namespace leeway {

// A few lines of figures; empty for one replica.
std::string averaging_report(const Recipe& recipe, int64_t vocabulary);

// Whole sentences that begin with "warning: " or "note: ", about settings that are probably
// unintended. Without a vocabulary, notes that depend on it are left out.
std::vector<std::string> averaging_notes(const LoadedRecipe& loaded,
                                         const std::optional<int64_t>& vocabulary);

}  // namespace leeway
