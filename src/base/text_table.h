// Tables as text: cells in, aligned columns out.
#pragma once

#include <string>
#include <vector>

namespace leeway {

using Row = std::vector<std::string>;

struct TextTable {
  Row header;
  std::vector<Row> rows;
};

// The first column is left-aligned, the others are right-aligned.
std::string table_text(const TextTable& table);

// Right-aligned columns, two spaces apart, with one row per stage. If there are too many stages,
// only the first and last ones are shown; the row `last` always is.
std::string stages_text(const Row& heading, const std::vector<Row>& stages, const Row& last = {});

}  // namespace leeway
