// The best mesh for a cluster: every cut of its machines into pipelines by arithmetic, the best of
// them in the simulator.
#pragma once

#include <functional>
#include <vector>

#include "simulate/candidate.h"
#include "simulate/method_run.h"

namespace leeway {

struct PlanRequest {
  const Scenario& scenario;
  const Cluster& cluster;
  int64_t vocabulary = 0;
  // Whether the recipe could be run at all, for reasons that the scenario does not know; empty:
  // yes.
  std::function<Status(const LoadedRecipe&)> accepts = {};
  // Simulated so far, and to be simulated; false ends the search.
  std::function<bool(size_t done, size_t total)> progress = {};
};

struct Plan {
  std::vector<Candidate> candidates;  // the chosen one first, then by what they promise
  MethodResult result;                // of the chosen one
  size_t tried = 0;                   // meshes that were looked at
  size_t refused = 0;                 // of them, for want of memory or for too many tokens
};

// An error: there is no mesh that fits; it says what came nearest.
Result<Plan> plan_for(const PlanRequest& request);

}  // namespace leeway
