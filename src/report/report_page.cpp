#include "report/report_page.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "report/text.h"
#include "report/validation_groups.h"
#include "report/web_files.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

// A script element ends at the first "</script", even inside a string.
std::string script_safe(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

Json page_data(const std::vector<RunData>& runs, const PageOptions& options) {
  Json json = {{"format", 1}, {"version", LEEWAY_VERSION}, {"title", options.title}};
  json["notes"] = options.notes;
  json["comparison"] = options.comparison;
  const ValidationGroups groups = validation_groups(runs);
  if (!groups.note.empty()) json["notes"].push_back(groups.note);
  json["runs"] = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    json["runs"].push_back(to_json(runs[i]));
    json["runs"].back()["validated_on"] = groups.letters[i];
  }
  return json;
}

std::string report_page(const std::vector<RunData>& runs, const PageOptions& options) {
  const std::string title = escaped(options.title);
  const std::string data = script_safe(page_data(runs, options));
  const std::string live = "<script>" + std::string(kLiveScript) + "</script>\n";
  const std::array<std::pair<std::string_view, std::string_view>, 11> parts = {{
      {"{{connect}}", options.live ? "; connect-src 'self'" : ""},
      {"{{title}}", title},
      {"{{report.css}}", kReportStyle},
      {"{{data}}", data},
      {"{{chart.js}}", kChartsLibrary},
      {"{{timeline.js}}", kTimelineScript},
      {"{{tables.js}}", kTablesScript},
      {"{{charts.js}}", kChartsScript},
      {"{{curves.js}}", kCurvesScript},
      {"{{report.js}}", kReportScript},
      {"{{live.js}}", options.live ? std::string_view(live) : ""},
  }};
  // In page order, so inserted text is never searched.
  std::string html;
  std::string_view rest = kReportPage;
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    LEEWAY_CHECK(at != rest.npos,
                 "web/report.html must have a placeholder for every part, in this order");
    html.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return html.append(rest);
}

RunLimits limits_for(size_t runs) {
  constexpr size_t kFew = 4;
  RunLimits limits;
  const size_t times = std::max<size_t>(1, (runs + kFew - 1) / kFew);
  limits.points_max = std::max<size_t>(limits.points_max / times, 100);
  limits.boxes_max = std::max<size_t>(limits.boxes_max / std::max<size_t>(runs, 1), 200);
  return limits;
}

}  // namespace leeway
