// Three replicas of two stages that compute, which several of these tests have.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "../support/worker_testing.h"
#include "config/averaging_rules.h"
#include "drivers/sim/simulation.h"
#include "run/mesh_model.h"

namespace leeway {

inline constexpr int64_t kStages = 2;
inline constexpr int64_t kReplicas = 3;
inline constexpr Mesh kMesh = {.stages = kStages, .replicas = kReplicas};

inline Recipe trio_recipe(AveragingMethod method) {
  Recipe recipe = tiny_recipe();
  recipe.pipeline.lookahead = Lookahead::kNone;
  recipe.mesh.stages = kStages;
  recipe.mesh.replicas = kReplicas;
  recipe.averaging = averaging_defaults(method);
  return recipe;
}

// An update takes about a microsecond.
inline sim::SimulationOptions trio_machines(uint64_t seed) {
  return {.costs = std::vector<sim::StageCosts>(
              kMesh.count(), {{300}, {600}, {100}, {10}, {90}, sim::RoundCosts::each({5})}),
          .links = {.seed = seed, .all = {.latency = {200}, .jitter = {400}}, .exceptions = {}}};
}

// Who is in each place now, in mesh order.
using Places = std::vector<const Worker*>;

inline Places places_of(const Workers& workers) {
  Places places;
  for (const auto& worker : workers) places.push_back(worker.get());
  return places;
}

// Makes those that fill a place again, and notes them. All of these must outlive it.
inline WorkerMaker maker_into(Places& places, const Recipe& recipe, const MeshData& data,
                              const RunPlan& plan) {
  return [&](WorkerId id, const Entry& entry) {
    auto worker = make_worker(recipe, data, plan, id, entry);
    places[kMesh.index(id)] = worker.get();
    return worker;
  };
}

// Like `leeway replay`: without evaluations, and with checkpoints only as flush points.
inline RunPlan as_replay(RunPlan plan, int64_t last_update) {
  plan.evaluation_batches = 0;
  plan.saves = false;
  plan.last_update = last_update;
  for (LanePlan& lane : plan.lanes) lane.replays = true;
  return plan;
}

inline void expect_same_weights(const Workers& a, const Workers& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t w = 0; w < a.size(); ++w) {
    EXPECT_TRUE(at::equal(a[w]->compute()->stage().weights(), b[w]->compute()->stage().weights()))
        << "worker " << w;
  }
}

}  // namespace leeway
