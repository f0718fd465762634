// The logs of a run's processes as one log, in an order in which every message is sent before it is
// received.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"
#include "events/event_log.h"

namespace leeway {

struct LogMergeOptions {
  // Called now and then with bytes read and bytes to read. An error stops the merge.
  std::function<Status(uint64_t done, uint64_t total)> progress = {};
  // Replaces `start` in the `started` line: the way from the merged log's folder to where the run
  // was started.
  std::optional<std::string> start = {};
  int64_t part_bytes = EventLog::kPartBytes;
};

struct MergedLog {
  int64_t lines = 0;
  std::set<WorkerId> workers = {};         // whose work the logs have
  std::vector<std::string> warnings = {};  // about what was left out
};

// Writes the new log `out`. `logs`: the coordinator's first. The order is by session, tick and
// place in `logs`; the coordinator's first line of a session comes before everything else of it,
// because it says what of earlier sessions still counts. Lines of one log keep their order and lose
// their `tick`, which the order replaces. Memory does not grow with the logs.
Result<MergedLog> merge_logs(const std::vector<Path>& logs, const Path& out,
                             const LogMergeOptions& options = {});

}  // namespace leeway
