#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace leeway::cli {

void print_table(const TextTable& table) {
  std::vector<size_t> widths(table.header.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  };
  widen(table.header);
  for (const auto& row : table.rows) widen(row);
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line = fmt::format("{:<{}}", cells[0], widths[0]);
    for (size_t i = 1; i < cells.size(); ++i) {
      line += fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    fmt::print("{}\n", line);
  };
  print(table.header);
  for (const auto& row : table.rows) print(row);
}

}  // namespace leeway::cli
