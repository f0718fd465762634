// The text that `leeway simulate` prints about its methods.
#pragma once

#include <string>
#include <vector>

#include "simulate/method_run.h"

namespace leeway {

// What went wrong, or is worth knowing, by method; empty: nothing.
std::string notes_text(const std::vector<MethodResult>& results);

std::string simulation_report(const Scenario& scenario, const Cluster& cluster,
                              const std::vector<MethodResult>& results);

}  // namespace leeway
