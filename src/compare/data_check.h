// Whether the data of a comparison is still what its finished runs read.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compare/plan.h"
#include "compare/results.h"
#include "data/dataset.h"

namespace leeway {

// Reads the data that a recipe names; prepared text is cached beside the run folder.
using ReadData = std::function<Result<Dataset>(const Recipe& recipe, const Path& run_folder)>;

// Called before anything runs. Prepares text on the way, once for all runs that share it.
// Unreadable data is not an error here: runs that need it will fail, and a table of finished runs
// does not need it.
Status check_data_unchanged(const ComparisonPlan& plan, const Path& folder,
                            const std::vector<std::optional<RunOutcome>>& outcomes,
                            const ReadData& read_data);

}  // namespace leeway
