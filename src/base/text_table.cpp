#include "base/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace leeway {
namespace {

// With more stages than this, only the first and last ones are shown.
constexpr size_t kRowsMax = 40;

std::vector<size_t> widths_of(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  return widths;
}

// Right-aligns the columns from `first` on, each after two spaces.
std::string right_aligned(const Row& row, size_t first, const std::vector<size_t>& widths) {
  std::string text;
  for (size_t column = first; column < row.size(); ++column)
    text += fmt::format("  {:>{}}", row[column], widths[column]);
  return text + '\n';
}

// Cuts out the middle if there are too many rows.
std::vector<Row> shortened(std::vector<Row> rows) {
  if (rows.size() <= kRowsMax) return rows;
  const auto half = static_cast<std::ptrdiff_t>(kRowsMax / 2);
  rows.erase(rows.begin() + half, rows.end() - half);
  rows.insert(rows.begin() + half, Row(rows.front().size(), "..."));
  return rows;
}

}  // namespace

std::string table_text(const TextTable& table) {
  std::vector<Row> rows = {table.header};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("{:<{}}{}", row.front(), widths.front(), right_aligned(row, 1, widths));
  return text;
}

std::string stages_text(const Row& heading, const std::vector<Row>& stages, const Row& last) {
  std::vector<Row> rows = {heading};
  for (Row& row : shortened(stages)) rows.push_back(std::move(row));
  if (!last.empty()) rows.push_back(last);
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const Row& row : rows) text += right_aligned(row, 0, widths);
  return text;
}

}  // namespace leeway
