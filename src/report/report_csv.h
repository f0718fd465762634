// The tables of a report as CSV files, for other programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// (file name, content): runs, curves, workers, histograms, traffic, configuration. Every row names
// its run.
std::vector<std::pair<std::string, std::string>> report_csv(const std::vector<RunData>& runs);

// One cell, quoted if necessary.
std::string csv_cell(std::string_view text);

}  // namespace leeway
