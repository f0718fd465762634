// What `leeway config check` tells about a good recipe: text, ready to print.
#pragma once

#include <string>

#include "base/result.h"
#include "config/load.h"

namespace leeway {

// One line each for the model, the run and the mesh.
std::string recipe_summary(const Recipe& recipe);

// Parameters, the cut into stages with its delays, memory, what averaging sends, and for the
// simulator whether the pipeline is deep enough. An unknown vocabulary costs what depends on it,
// and its error is told in one line instead. The error of this function is that of a run that no
// machine or clock can hold.
Result<std::string> pipeline_report(const LoadedRecipe& loaded, const Result<int64_t>& vocabulary);

}  // namespace leeway
