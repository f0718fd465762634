// One HTML page about runs: charts, tables, a timeline each. It needs nothing beside itself and
// asks nobody for anything.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/run_data.h"
#include "report/run_reader.h"

namespace leeway {

struct PageOptions {
  std::string title;
  std::vector<std::string> notes = {};
  // A table over the charts, for who compares runs: null, or
  //   {"title": "...", "columns": ["variant", "loss", ...], "rows": [["sparse", 2.31, ...], ...],
  //    "notes": ["..."], "fair": "why the rows can be compared, or why not"}
  // Cells are texts, numbers or null; {"mean": 2.31, "spread": 0.02} is shown as 2.31 ± 0.02, and
  // {"failed": "why"} as a failure with its reason.
  nlohmann::ordered_json comparison = nullptr;
  bool live = false;  // asks the server that it came from for newer data
};

// What the page's script calls show() with. A page that is told newer data calls it again.
nlohmann::ordered_json page_data(const std::vector<RunData>& runs, const PageOptions& options);

std::string report_page(const std::vector<RunData>& runs, const PageOptions& options);

// Fewer points of each run where there are many, so that a page stays below 10 MB.
RunLimits limits_for(size_t runs);

}  // namespace leeway
