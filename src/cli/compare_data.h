// Whether the data of a comparison is still what its runs have read.
#pragma once

#include <optional>
#include <vector>

#include "compare/plan.h"
#include "compare/results.h"
#include "worker/clock.h"

namespace leeway::cli {

// Before anything runs. Text is prepared on the way, once for the runs that share it. Data that
// cannot be read is not complained about: runs that need it will, and a table of runs that are all
// there does not need it.
Status check_data_unchanged(const ComparisonPlan& plan, const Path& folder,
                            const std::vector<std::optional<RunOutcome>>& outcomes,
                            const Clock& clock);

}  // namespace leeway::cli
