// One HTML page about runs: charts, tables and a timeline for each. Self-contained: it loads
// nothing.
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
  // A table above the charts that compares the runs: null, or
  //   {"title": "...", "columns": ["variant", "loss", ...], "rows": [["sparse", 2.31, ...], ...],
  //    "notes": ["..."], "fair": "why the rows can be compared, or why not"}
  // Cells are strings, numbers or null; {"mean": 2.31, "spread": 0.02} is shown as 2.31 ± 0.02, and
  // {"failed": "why"} as a failure with its reason.
  nlohmann::ordered_json comparison = nullptr;
  bool live = false;  // the page polls its server for newer data
};

// The argument of show() in the page's script, which a live page calls again with newer data.
nlohmann::ordered_json page_data(const std::vector<RunData>& runs, const PageOptions& options);

std::string report_page(const std::vector<RunData>& runs, const PageOptions& options);

// Fewer points per run if there are many runs, so that a page stays below 10 MB.
RunLimits limits_for(size_t runs);

}  // namespace leeway
