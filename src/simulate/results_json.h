// The results of a simulation for programs: results.json.
#pragma once

#include <string>
#include <vector>

#include "simulate/method_run.h"

namespace leeway {

// The others are compared with the first method. `target_loss` 0: none.
std::string results_json(const Scenario& scenario, const Cluster& cluster,
                         const std::vector<MethodResult>& results);

// Simulated seconds until validation (or, without it, training) reached `loss`; negative: never.
double seconds_to_loss(const MethodResult& result, double loss);

// Relative to the first method that has a result; 0: there is none.
double speed_up(const std::vector<MethodResult>& results, size_t at);

}  // namespace leeway
