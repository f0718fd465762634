// A run compared with another, in a few lines.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// Loss, speed, time to a loss that both reached, bytes and busy share, each next to the other
// run's, whichever is better. Says so if a run lacks one of them, or if two cannot be compared.
std::vector<std::string> verdict(const RunData& run, const RunData& against);

}  // namespace leeway
