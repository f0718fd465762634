// A run against another one, in three lines.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// Loss, bytes and busy share, each beside the other run's. What one of them does not have is said.
std::vector<std::string> verdict(const RunData& run, const RunData& against);

}  // namespace leeway
