// What `leeway simulate` tells about its methods: text, ready to print.
#pragma once

#include <string>
#include <vector>

#include "simulate/method_run.h"

namespace leeway {

std::string simulation_report(const Scenario& scenario, const Cluster& cluster,
                              const std::vector<MethodResult>& results);

}  // namespace leeway
