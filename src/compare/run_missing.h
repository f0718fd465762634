// Runs what a comparison is still missing, several at a time, each as a program of its own.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "compare/plan.h"
#include "compare/results.h"

namespace leeway {

// Fills in the outcomes that are none, of which there is one at least. Ctrl-C ends the children and
// comes back with an error that says how to go on; what they had done is done again then, for a run
// that was stopped and resumed between two checkpoints of its recipe would not have the bits of one
// that was not.
Status run_missing(const ComparisonPlan& plan, const Path& folder, int64_t jobs, const Clock& clock,
                   std::vector<std::optional<RunOutcome>>& outcomes);

}  // namespace leeway
