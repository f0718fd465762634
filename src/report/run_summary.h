// summary.json: the numbers of a run that has ended.
#pragma once

#include "base/files.h"
#include "report/run_data.h"

namespace leeway {

// The headline becomes the summary's where the run has ended, or where there is no log to know
// better: a summary beside a run that goes on is of an earlier session.
void add_summary(RunData& data, const Path& folder, bool has_log);

// What an all-reduce of fp32 gradients would have sent so far, where there are replicas.
void estimate_allreduce(RunData& data, int64_t parameters);

}  // namespace leeway
