// What a simulation found, for programs: results.json.
#pragma once

#include <string>
#include <vector>

#include "simulate/method_run.h"

namespace leeway {

// The first method is what the others are held against. `target_loss` 0: none.
std::string results_json(const Scenario& scenario, const Cluster& cluster,
                         const std::vector<MethodResult>& results);

// Simulated seconds until validation (or, without it, training) was down to `loss`; negative:
// never.
double seconds_to_loss(const MethodResult& result, double loss);

// Over the first method that has numbers; 0: there is none.
double speed_up(const std::vector<MethodResult>& results, size_t at);

}  // namespace leeway
