// Whether the data of a comparison is still what its runs have read.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compare/plan.h"
#include "compare/results.h"
#include "data/dataset.h"

namespace leeway {

// Reads the data that a recipe names; prepared text is kept beside the run's folder.
using ReadData = std::function<Result<Dataset>(const Recipe& recipe, const Path& run_folder)>;

// Before anything runs. Text is prepared on the way, once for the runs that share it. Data that
// cannot be read is not complained about: runs that need it will, and a table of runs that are all
// there does not need it.
Status check_data_unchanged(const ComparisonPlan& plan, const Path& folder,
                            const std::vector<std::optional<RunOutcome>>& outcomes,
                            const ReadData& read_data);

}  // namespace leeway
