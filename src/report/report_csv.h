// The tables of a report as CSV files, for other programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// (file name, content): runs, curves, workers, histograms, traffic, configuration. Every row says
// which run it is of.
std::vector<std::pair<std::string, std::string>> report_csv(const std::vector<RunData>& runs);

// One cell, in quotes where it needs them.
std::string csv_cell(std::string_view text);

}  // namespace leeway
