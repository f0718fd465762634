// Tables for a terminal.
#pragma once

#include <string>
#include <vector>

#include "report/stage_table.h"

namespace leeway::cli {

using Row = std::vector<std::string>;

// The first column to the left, numbers to the right.
void print_table(const TextTable& table);

// Right-aligned columns, two spaces apart. Of too many rows, one for each stage, only the ends are
// shown; `last` stays.
std::string table(const Row& heading, const std::vector<Row>& rows, const Row& last = {});

}  // namespace leeway::cli
