// summary.json: the results of a run that has ended.
#pragma once

#include "base/files.h"
#include "report/run_data.h"

namespace leeway {

// Takes the headline from the summary if the run has ended or there is no log. A summary beside a
// run in progress is from an earlier session.
void add_summary(RunData& data, const Path& folder, bool has_log);

// What an all-reduce of fp32 gradients would have sent so far, if there are several replicas.
// `shift`: what earlier numbers of replicas add.
void estimate_allreduce(RunData& data, int64_t parameters, int64_t shift);

}  // namespace leeway
