// Random meshes with replicas, one per seed: every method, links with jitter, replicas of different
// speed, pauses, stop requests. The checkers watch; every worker must finish.
#include <gtest/gtest.h>

#include "round_plans.h"

namespace leeway::sim {
namespace {

struct RoundScenario {
  RunPlan plan;
  SimulationOptions options;
  size_t stop_after = SIZE_MAX;
  std::vector<size_t> save_after = {};
};

RoundOptions random_rounds(Dice& dice) {
  const std::array<int64_t, 4> replicas = {1, 2, 3, 5};
  const std::array<int64_t, 6> lags = {0, 1, 2, 3, 5, 9};  // microbatches
  RoundOptions rounds = {.method = static_cast<Method>(dice(0, kMethods - 1)),
                         .replicas = replicas[static_cast<size_t>(dice(0, 3))],
                         .cycle = dice(1, 10),
                         .lag_backwards = {},
                         .deadline = dice(1, 30) * kMillisecond};
  if (dice.one_in(2)) rounds.lag_backwards = lags[static_cast<size_t>(dice(0, 5))];
  if (rounds.method == Method::kAllreduce) rounds.lag_backwards = 0;
  rounds.follows = dice.one_in(2);
  if (dice.one_in(3)) rounds.lag_limit = static_cast<double>(dice(1, 8)) / 4;
  return rounds;
}

RunPlan random_plan(Dice& dice) {
  const RoundOptions rounds = random_rounds(dice);
  RunPlan plan;
  plan.shape = {.order = dice.one_in(3) ? PipelineSchedule::k1f1b : PipelineSchedule::kAsync,
                .stages = dice(1, 4),
                .update_every = dice(1, 3),
                .extra_per_hop = dice(0, 1)};
  plan.first_update = dice.one_in(3) ? dice(1, 5) : 0;
  plan.last_update = plan.first_update + dice(1, 40);
  plan.run_updates = plan.last_update + (dice.one_in(4) ? dice(1, 5) : 0);
  plan.evaluate_every = dice.one_in(3) ? 0 : dice(1, 12);
  plan.evaluation_batches = dice.one_in(3) ? 0 : dice(1, 5);
  plan.checkpoint_every = dice.one_in(2) ? 0 : dice(1, 9);
  plan.saves = !dice.one_in(4);
  plan.activation_bytes = dice(0, 10'000);
  plan.evaluation_bytes = plan.activation_bytes;
  plan.replicas = rounds.replicas;
  add_lanes(rounds, plan);
  mix_evaluations(plan);
  return plan;
}

RoundScenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  RoundScenario scenario = {.plan = random_plan(dice), .options = {}};
  const Mesh mesh = {.stages = scenario.plan.shape.stages, .replicas = scenario.plan.replicas};
  for (int64_t r = 0; r < mesh.replicas; ++r) {
    const int64_t slowness = dice.one_in(3) ? dice(1, 6) : 1;
    for (int64_t s = 0; s < mesh.stages; ++s) {
      scenario.options.costs.push_back(random_costs(dice, slowness));
    }
  }
  scenario.options.links = {.seed = seed, .all = random_link(dice), .exceptions = {}};
  const auto worker = [&] {
    return mesh.id(static_cast<size_t>(dice(0, std::ssize(scenario.options.costs) - 1)));
  };
  for (int64_t i = dice(0, 3); i > 0; --i) {
    scenario.options.links.exceptions.push_back(
        {.from = worker(), .to = worker(), .options = random_link(dice)});
  }
  for (int64_t i = dice(0, 4); i > 0; --i) {
    scenario.options.pauses.push_back({.worker = worker(),
                                       .begin = dice(0, 50) * kMillisecond,
                                       .length = dice(1, 100'000) * kMicrosecond});
  }
  if (dice.one_in(3)) scenario.stop_after = static_cast<size_t>(dice(0, 400));
  for (int64_t i = dice(0, 3); i > 0; --i)
    scenario.save_after.push_back(static_cast<size_t>(dice(0, 600)));
  return scenario;
}

uint64_t run(const RoundScenario& scenario) {
  Simulation simulation(scenario.options);
  Notebook recorder;
  run_to_the_end(scenario, simulation, recorder);
  const bool together = std::ranges::any_of(
      scenario.plan.lanes, [](const LanePlan& lane) { return lane.lag_backwards.has_value(); });
  check_saves(recorder, scenario.plan, together);
  return simulation.digest();
}

TEST(RoundSwarm, EveryWorkerFinishes) {
  run_swarm_of_digests({.seeds = 200, .share = 0.15},
                       [](uint64_t seed) { return run(random_scenario(seed)); });
}

}  // namespace
}  // namespace leeway::sim
