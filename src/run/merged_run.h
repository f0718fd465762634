// One run folder made of those of a run's processes, for everything that reads a run.
#pragma once

#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/merge_logs.h"

namespace leeway {

struct RunMergeRequest {
  Path run;                  // the folder of the coordinator's process
  std::vector<Path> others;  // folders of the other processes, or their logs
  Path out;                  // must not exist
};

// Copies configuration, summary and tokenizer of `run` and merges all logs. `out` appears complete
// or not at all.
Result<MergedLog> merge_run(
    const RunMergeRequest& request,
    const std::function<Status(uint64_t done, uint64_t total)>& progress = {});

}  // namespace leeway
