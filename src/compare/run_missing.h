// Runs what a comparison is still missing, several at a time, each in its own process.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "compare/plan.h"
#include "compare/results.h"

namespace leeway {

// Fills in the missing outcomes, of which there must be at least one. Ctrl-C stops the children and
// returns an error that says how to continue. Stopped runs then start over: a run resumed between
// two of its recipe's checkpoints would not have the same bits as an uninterrupted one.
Status run_missing(const ComparisonPlan& plan, const Path& folder, int64_t jobs, const Clock& clock,
                   std::vector<std::optional<RunOutcome>>& outcomes);

}  // namespace leeway
