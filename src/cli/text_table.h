// A table on the terminal.
#pragma once

#include "report/stage_table.h"

namespace leeway::cli {

// The first column to the left, numbers to the right.
void print_table(const TextTable& table);

}  // namespace leeway::cli
