// What `leeway config check` prints about a valid recipe.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "config/load.h"
#include "pipeline/memory_plan.h"

namespace leeway {

// One line each for the model, the run and the mesh.
std::string recipe_summary(const Recipe& recipe);

// Parameters, the cut into stages with its delays, memory, what averaging sends, and for the
// simulator whether the pipeline is deep enough. If the vocabulary is unknown, its error replaces
// everything that depends on it. Fails if the run exceeds the memory of the machine, or of its GPUs
// (bytes of each; empty: unknown).
Result<std::string> pipeline_report(const LoadedRecipe& loaded, const Result<int64_t>& vocabulary,
                                    const std::vector<double>& gpus = {});

// What the user should know about keys of the pipeline; for `train` too.
std::vector<std::string> pipeline_notes(const LoadedRecipe& loaded);

// The memory of every stage, and of all together.
std::string memory_table(const Recipe& recipe, const std::vector<StageMemory>& plan);

}  // namespace leeway
