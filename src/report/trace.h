// A run in Chrome's trace event format, for Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files.h"
#include "report/work_history.h"

namespace leeway {

// A process per replica, a thread per stage, times in microseconds since the run began, and arrows
// along the path of each microbatch. `window`: only work that overlaps it; none: the whole run.
// Returns how many pieces of work were written.
Result<int64_t> write_trace(const Path& path, const WorkHistory& history,
                            const std::optional<TimeSpan>& window);

}  // namespace leeway
