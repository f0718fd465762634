// Random meshes, links, pauses and stop requests, one per seed: every worker must finish, with the
// simulation's checkers watching.
#include <gtest/gtest.h>

#include <array>

#include "swarm_testing.h"

namespace leeway::sim {
namespace {

struct Scenario {
  RunPlan plan;
  int64_t replicas = 1;
  SimulationOptions options;
  size_t stop_after = SIZE_MAX;
  std::vector<size_t> save_after = {};
};

RunPlan random_plan(Dice& dice) {
  const std::array<PipelineSchedule, 4> orders = {PipelineSchedule::kAsync,
                                                  PipelineSchedule::kAsync, PipelineSchedule::k1f1b,
                                                  PipelineSchedule::kGpipe};
  RunPlan plan;
  plan.shape = {.order = orders[static_cast<size_t>(dice(0, 3))],
                .stages = dice(1, 6),
                .update_every = dice(1, 5),
                .extra_per_hop = dice(0, 2)};
  plan.first_update = dice.one_in(3) ? dice(1, 5) : 0;
  plan.last_update = plan.first_update + dice(1, 20);
  plan.run_updates = plan.last_update + (dice.one_in(3) ? dice(1, 5) : 0);
  plan.evaluate_every = dice.one_in(3) ? 0 : dice(1, 7);
  plan.evaluation_batches = dice.one_in(4) ? 0 : dice(1, 12);
  plan.checkpoint_every = dice.one_in(2) ? 0 : dice(1, 6);
  plan.saves = !dice.one_in(4);
  if (dice.one_in(4)) plan.flushes = {{plan.first_update + dice(0, 9), plan.first_update + 10}};
  plan.activation_bytes = dice(0, 100'000);
  plan.evaluation_bytes = plan.activation_bytes;
  return plan;
}

WorkerId random_worker(Dice& dice, const Scenario& scenario) {
  return {.replica = {dice(0, scenario.replicas - 1)},
          .stage = {dice(0, scenario.plan.shape.stages - 1)}};
}

Scenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  Scenario scenario = {.plan = random_plan(dice), .replicas = dice(1, 3), .options = {}};
  scenario.plan = with_replicas(scenario.plan, scenario.replicas);
  if (!scenario.plan.flushes.empty())
    scenario.plan.flushes.resize(static_cast<size_t>(scenario.replicas), scenario.plan.flushes[0]);
  const int64_t workers = scenario.replicas * scenario.plan.shape.stages;
  for (int64_t i = 0; i < workers; ++i) {
    scenario.options.costs.push_back({.forward = dice(0, 1000) * kMicrosecond,
                                      .backward = dice(0, 2000) * kMicrosecond,
                                      .update = dice(0, 300) * kMicrosecond,
                                      .save = dice(0, 100) * kMicrosecond,
                                      .evaluate = dice(0, 1000) * kMicrosecond});
  }
  scenario.options.links = {.seed = seed, .all = random_link(dice), .exceptions = {}};
  for (int64_t i = dice(0, 3); i > 0; --i) {
    scenario.options.links.exceptions.push_back({.from = random_worker(dice, scenario),
                                                 .to = random_worker(dice, scenario),
                                                 .options = random_link(dice)});
  }
  for (int64_t i = dice(0, 4); i > 0; --i) {
    scenario.options.pauses.push_back({.worker = random_worker(dice, scenario),
                                       .begin = dice(0, 50) * kMillisecond,
                                       .length = dice(1, 100'000) * kMicrosecond});
  }
  if (dice.one_in(2)) scenario.stop_after = static_cast<size_t>(dice(0, 80));
  for (int64_t i = dice(0, 3); i > 0; --i)
    scenario.save_after.push_back(static_cast<size_t>(dice(0, 200)));
  return scenario;
}

// Until all workers are done, some work, message or pause is always in progress: the run takes no
// longer than all of them one after the other.
Nanos longest_time(const Scenario& scenario, const Notebook& recorder,
                   const Simulation& simulation) {
  Nanos sum;
  const Mesh mesh = {.stages = scenario.plan.shape.stages, .replicas = scenario.replicas};
  for (const WorkRecord& record : recorder.records()) {
    sum = sum + scenario.options.costs[mesh.index(record.worker)].of(record.work);
  }
  for (const Pause& pause : scenario.options.pauses) sum = sum + pause.length;
  for (const LinkStatistics& used : simulation.links()) {
    LinkOptions link = scenario.options.links.all;
    for (const LinkException& exception : scenario.options.links.exceptions) {
      if (exception.from == used.from && exception.to == used.to) link = exception.options;
    }
    sum = sum + used.messages * (link.latency + link.jitter);
    if (link.bytes_per_second == 0) continue;
    const int64_t bytes = used.payload_bytes + used.messages * kHeaderBytes;
    const double seconds = static_cast<double>(bytes) / link.bytes_per_second;
    sum = sum + Nanos{static_cast<int64_t>(seconds * 1e9) + used.messages};  // each rounded up
  }
  return sum;
}

uint64_t run(const Scenario& scenario) {
  Simulation simulation(scenario.options);
  Notebook recorder;
  run_to_the_end(scenario, simulation, recorder);
  check_saves(recorder, scenario.plan, /*together=*/false);
  EXPECT_LE(simulation.span().end, longest_time(scenario, recorder, simulation));
  return simulation.digest();
}

TEST(Swarm, EveryWorkerFinishes) {
  run_swarm_of_digests({.share = 0.05}, [](uint64_t seed) { return run(random_scenario(seed)); });
}

}  // namespace
}  // namespace leeway::sim
