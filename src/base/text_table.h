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

// The first column to the left, numbers to the right.
std::string table_text(const TextTable& table);

// Right-aligned columns, two spaces apart. Of too many rows, one for each stage, only the ends are
// shown; `last` stays.
std::string stages_text(const Row& heading, const std::vector<Row>& stages, const Row& last = {});

}  // namespace leeway
