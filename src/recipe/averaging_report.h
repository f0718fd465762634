// What the replicas of a recipe will send each other, in words: for `config check`, and the notes
// among it for `train`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load.h"

namespace leeway {

// A few lines with the numbers; empty for one replica.
std::string averaging_report(const Recipe& recipe, int64_t vocabulary);

// Whole sentences, each beginning with "warning: " or "note: ": what is likely not meant. What
// depends on the vocabulary is left out where it is not known.
std::vector<std::string> averaging_notes(const LoadedRecipe& loaded,
                                         const std::optional<int64_t>& vocabulary);

}  // namespace leeway
