// The logs of a fleet's processes, which arrive at the end of each session, and how they become
// part of the run's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "drivers/loop/post.h"

namespace leeway {

// Part of one file of a process's log, from byte `begin` on: parts come in order.
Status store_log_part(const Path& run_folder, ProcessId process, const std::string& file,
                      int64_t begin, std::span<const std::byte> bytes);

// Puts the lines of these processes into the log of the run. What each had logged itself is kept in
// logs/. Returns a sentence for each log that is missing: its process was lost with its machine.
Result<std::vector<std::string>> merge_fleet_logs(const Path& run_folder, const std::string& run,
                                                  const std::map<ProcessId, std::string>& processes,
                                                  int64_t sessions);

}  // namespace leeway
