// Which part of a run is drawn: what was requested, or its start and part of its middle.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/work_survey.h"

namespace leeway {

// "3:7", "3:" (to the end), ":7" (from the start) or "5".
Result<UpdateRange> parse_update_range(std::string_view text);

struct WindowRequest {
  std::optional<double> from_seconds;  // since the run began
  std::optional<double> to_seconds;
  std::optional<UpdateRange> updates;  // not with the other two
};

// One picture: a part of the run's time.
struct Window {
  std::string name;  // "updates 1 to 12 of 600"
  TimeSpan span;     // never empty
};

// Without a request: the whole run if it is short; otherwise its first updates, where the pipeline
// fills, and as many from its middle, where it should be full. The latter have no checkpoint or
// evaluation if possible, which would not be typical.
Result<std::vector<Window>> choose_windows(const WorkSurvey& survey, const WindowRequest& request);

// "updates 1 to 12 of 600 (0 s to 1.2 s)"
std::string describe(const Window& window);

}  // namespace leeway
