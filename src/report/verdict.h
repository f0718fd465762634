// A run compared with another, in three lines.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// Loss, bytes and busy share, each next to the other run's. Says so if a run lacks one of them.
std::vector<std::string> verdict(const RunData& run, const RunData& against);

}  // namespace leeway
