// A comparison for people and for programs: a table in Markdown, and everything as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compare/plan.h"
#include "compare/results.h"

namespace leeway {

struct ComparisonResults {
  const ComparisonPlan& plan;
  const std::vector<RunOutcome>& outcomes;
  std::vector<ComparisonRow> rows;
  std::string command;  // that reproduces them
};

// What a page shows: {title, columns, rows, notes, fair}. A cell is a string, null, {text, value}
// with the number behind the text, or {failed} with the reason; `fair` is a sentence.
nlohmann::ordered_json comparison_json(const ComparisonResults& results);

// The same as Markdown, with aligned columns.
std::string comparison_markdown(const ComparisonResults& results);

// results.json: all numbers of all rows and runs, and comparison_json() as "comparison".
std::string results_json(const ComparisonResults& results);

}  // namespace leeway
