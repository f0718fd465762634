// Finds the best mesh for a cluster: estimates every cut of its machines into pipelines, then
// simulates the best of them.
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
  // Whether the recipe can run at all, apart from what the scenario knows; empty: always.
  std::function<Status(const LoadedRecipe&)> accepts = {};
  // Called with the number simulated and to simulate; false ends the search.
  std::function<bool(size_t done, size_t total)> progress = {};
};

struct MeshPlan {
  std::vector<Candidate> candidates;  // the chosen one first, then by estimate
  MethodResult result;                // of the chosen one
  size_t tried = 0;                   // meshes considered
  size_t refused = 0;                 // of these, too large for memory or tokens_per_update
};

// An error if no mesh fits; it says what came closest.
Result<MeshPlan> plan_for(const PlanRequest& request);

}  // namespace leeway
