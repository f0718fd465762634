// What `leeway config check` prints about a valid recipe.
#pragma once

#include <string>

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// One line each for the model, the run and the mesh.
std::string recipe_summary(const Recipe& recipe);

// Parameters, the cut into stages with its delays, memory, what averaging sends, and for the
// simulator whether the pipeline is deep enough. If the vocabulary is unknown, its error replaces
// everything that depends on it. Fails if the run exceeds the machine's memory.
Result<std::string> pipeline_report(const LoadedRecipe& loaded, const Result<int64_t>& vocabulary);

}  // namespace leeway
