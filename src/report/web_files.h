// The files of web/ and Debian's Chart.js, which the build embeds in the program
// (cmake/embed.cmake), so that a page is self-contained.
#pragma once

#include <string_view>

namespace leeway {

extern const std::string_view kTimelineStyle;   // CSS of the picture
extern const std::string_view kTimelineScript;  // zoom, tooltip: startTimeline(root)
extern const std::string_view kReportStyle;
extern const std::string_view kReportPage;     // HTML with placeholders for the others
extern const std::string_view kTablesScript;   // tables, text, CSV
extern const std::string_view kChartsScript;   // what each chart shows
extern const std::string_view kCurvesScript;   // cards with curves, and their tools
extern const std::string_view kReportScript;   // show(data)
extern const std::string_view kLiveScript;     // calls show() when newer data arrives
extern const std::string_view kChartsLibrary;  // Chart.js; empty: built without it

}  // namespace leeway
