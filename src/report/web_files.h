// The files of web/, and Chart.js from Debian, which the build puts into the program
// (cmake/embed.cmake): a page needs nothing beside itself.
#pragma once

#include <string_view>

namespace leeway {

extern const std::string_view kTimelineStyle;   // CSS of the picture
extern const std::string_view kPageStyle;       // CSS of every page
extern const std::string_view kTimelineScript;  // zoom, tooltip: startTimeline(root)
extern const std::string_view kReportStyle;
extern const std::string_view kReportPage;     // HTML with places for the others
extern const std::string_view kTablesScript;   // tables, texts, CSV
extern const std::string_view kChartsScript;   // what each chart shows
extern const std::string_view kReportScript;   // show(data)
extern const std::string_view kLiveScript;     // calls show() as newer data comes
extern const std::string_view kChartsLibrary;  // Chart.js; empty: built without it

}  // namespace leeway
