#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace leeway::cli {
namespace {

// Of a mesh with more stages than this, only the ends are shown.
constexpr size_t kRowsMax = 40;

// Right-aligned columns, two spaces apart. The first row is the heading.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t column = 0; column < row.size(); ++column)
      text += fmt::format("  {:>{}}", row[column], widths[column]);
    text += '\n';
  }
  return text;
}

// The rows of stages, without the middle where they are too many.
std::vector<Row> shortened(std::vector<Row> rows) {
  if (rows.size() <= kRowsMax) return rows;
  const auto half = static_cast<std::ptrdiff_t>(kRowsMax / 2);
  rows.erase(rows.begin() + half, rows.end() - half);
  rows.insert(rows.begin() + half, Row(rows.front().size(), "..."));
  return rows;
}

}  // namespace

std::string table(const Row& heading, const std::vector<Row>& stages, const Row& last) {
  std::vector<Row> rows = {heading};
  for (Row& row : shortened(stages)) rows.push_back(std::move(row));
  if (!last.empty()) rows.push_back(last);
  return aligned(rows);
}

}  // namespace leeway::cli
