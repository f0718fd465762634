// A scenario in several sizes: every method with each number of replicas in simulate.replicas, and
// one table of what averaging costs a worker at each of them.
#pragma once

#include <string>
#include <vector>

#include "simulate/method_run.h"
#include "simulate/scenario.h"

namespace leeway {

// The scenario's methods, or the usual ones, at every size.
Result<std::vector<Method>> methods_to_run(const Scenario& scenario);

std::string sweep_report(const Scenario& scenario, const std::vector<MethodResult>& results);

}  // namespace leeway
