// A run in the trace event format of Chrome, for Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files.h"
#include "report/work_history.h"

namespace leeway {

// A process per replica, a thread per stage, times in microseconds since the run began, and arrows
// along the way of each microbatch. `window`: only work that touches it; none: all of the run.
// Returns how many pieces of work were written.
Result<int64_t> write_trace(const Path& path, const WorkHistory& history,
                            const std::optional<TimeSpan>& window);

}  // namespace leeway
