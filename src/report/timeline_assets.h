// The parts of a timeline that are the same for every run.
#pragma once

#include <string_view>

namespace leeway {

extern const std::string_view kTimelineStyle;   // CSS of the picture
extern const std::string_view kPageStyle;       // CSS of the page around it
extern const std::string_view kTimelineScript;  // zoom, tooltip; JavaScript without dependencies

}  // namespace leeway
