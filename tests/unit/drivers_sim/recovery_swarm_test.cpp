// A swarm of replicas that are lost and come back: crashes and returns at any time, disks that are
// slow, full for a while or torn, lost messages, and coordinators that are started again.
#include <gtest/gtest.h>

#include <algorithm>

#include "recovery_testing.h"

namespace leeway::sim {
namespace {

constexpr Nanos kDeadline = {10'000'000};

struct Scenario {
  RunPlan plan;
  SimulationOptions options;
  DiskOptions disk;
  size_t stop_after = SIZE_MAX;
  size_t save_after = SIZE_MAX;
};

// A worker, a few stages or a whole replica, which is back before or after that is noticed, or
// never.
void add_crashes(Dice& dice, Scenario& scenario) {
  const RunPlan& plan = scenario.plan;
  SimulationOptions& options = scenario.options;
  Nanos begin = dice(1, 60) * kMillisecond;
  for (int64_t crashes = dice(1, 5); crashes > 0; --crashes) {
    const ReplicaId replica = {dice(0, plan.replicas - 1)};
    const int64_t first = dice.one_in(2) ? 0 : dice(0, plan.shape.stages - 1);
    const int64_t last =
        dice.one_in(2) ? plan.shape.stages - 1 : dice(first, plan.shape.stages - 1);
    const Nanos back = begin + dice(1, 80) * kMillisecond;
    const bool never = dice.one_in(6);
    for (int64_t s = first; s <= last; ++s) {
      const WorkerId worker = {.replica = replica, .stage = {s}};
      const Nanos at = begin + dice(0, dice.one_in(2) ? 0 : 20) * kMillisecond;
      options.departures.push_back({.worker = worker, .at = at});
      if (never && s == first) continue;
      options.returns.push_back({.worker = worker,
                                 .at = back + dice(0, dice.one_in(2) ? 0 : 30) * kMillisecond,
                                 .with_disk = dice.one_in(2)});
    }
    begin = begin + dice(1, 120) * kMillisecond;
  }
  options.notice = dice(0, 40) * kMillisecond;
}

// One that was away for long, or only for a moment, late in a long run.
void add_late_return(Dice& dice, Scenario& scenario) {
  using Kind = PlannedFault::Kind;
  const int64_t back = scenario.plan.last_update - dice(20, 150);
  const ReplicaId replica = {dice(0, scenario.plan.replicas - 1)};
  scenario.options.planned.push_back(
      {.kind = dice.one_in(2) ? Kind::kLose : Kind::kLeave,
       .replica = replica,
       .update = dice.one_in(2) ? back - dice(1, 30) : dice(20, back)});
  scenario.options.planned.push_back(
      {.kind = Kind::kReturn, .replica = replica, .update = back, .with_disk = dice.one_in(2)});
}

// Disks that are full for a while, for longer than between two attempts too, or lose what they had.
void add_disk_faults(Dice& dice, Scenario& scenario) {
  Nanos begin;
  for (int64_t i = dice.one_in(2) ? dice(1, 3) : 0; i > 0; --i) {
    begin = begin + dice(0, 150) * kMillisecond;
    const Nanos end = begin + dice(1, dice.one_in(4) ? 25'000 : 200) * kMillisecond;
    scenario.disk.full.push_back({begin, end});
    begin = end;
  }
  scenario.disk.patient = dice.one_in(2);
  scenario.disk.torn_one_in = dice.one_in(2) ? dice(1, 4) : 0;
}

Scenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  const bool is_long = dice.one_in(10);
  scenario.plan = random_pipeline(dice, is_long ? dice(400, 1300) : dice(40, 150));
  RunPlan& plan = scenario.plan;
  const std::array<Method, 4> methods = {Method::kNone, Method::kSparse, Method::kSparse,
                                         Method::kDiloco};
  const bool regroups = dice.one_in(5);
  add_lanes({.method = regroups ? static_cast<Method>(dice(0, kMethods - 1))
                                : methods[static_cast<size_t>(dice(0, 3))],
             .replicas = dice(2, 4),
             .cycle = dice(1, 10),
             .lag_backwards = regroups ? std::optional(dice(0, 7)) : std::nullopt,
             .deadline = kDeadline},
            plan);
  plan.state_bytes = dice(0, 12) * kStatePartBytes / 2;
  plan.join_bytes_per_second = dice.one_in(2) ? 0 : 200e6;
  SimulationOptions& options = scenario.options;
  for (size_t i = 0; i < plan.mesh().count(); ++i) options.costs.push_back(random_costs(dice, 1));
  options.links = {
      .seed = seed,
      .all = {.latency = dice(0, 2000) * kMicrosecond, .jitter = dice(0, 1000) * kMicrosecond},
      .exceptions = {}};
  options.messages = {.seed = seed,
                      .twice = dice.one_in(3) ? 0.2 : 0,
                      .lost = plan.evaluation.deadline && dice.one_in(3) ? 0.05 : 0,
                      .class_jitter = dice.one_in(2) ? Nanos{0} : dice(0, 5000) * kMicrosecond,
                      .through_bytes = dice.one_in(3)};
  if (dice.one_in(2)) options.save_time = dice(0, 100) * kMillisecond;
  if (dice.one_in(4)) scenario.stop_after = static_cast<size_t>(dice(10, 4000));
  if (dice.one_in(3)) scenario.save_after = static_cast<size_t>(dice(10, 2000));
  add_crashes(dice, scenario);
  Nanos begin;
  for (int64_t i = dice(0, 2); i > 0; --i) {
    begin = begin + dice(1, 150) * kMillisecond;
    const Nanos end = begin + dice(0, 60) * kMillisecond;
    options.coordinator_outages.push_back({begin, end});
    begin = end;
  }
  scenario.disk.seed = seed;
  add_disk_faults(dice, scenario);
  if (is_long) add_late_return(dice, scenario);
  return scenario;
}

uint64_t run(const Scenario& scenario) {
  const RunPlan& plan = scenario.plan;
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(scenario.options);
  simulation.fill_places(maker_of(plan));
  Disk disk(scenario.disk, simulation.clock());
  Witness witness(plan, disk);
  witness.stop_after = scenario.stop_after;
  witness.save_after = scenario.save_after;
  EXPECT_TRUE(simulation.run(workers, witness, &disk).ok());
  // Who is there at the end has done the whole run.
  if (scenario.stop_after == SIZE_MAX && !witness.regroup) {
    for (const ReplicaId replica : witness.table().members()) {
      EXPECT_EQ(updates_of(witness, replica.value), plan.last_update);
    }
  }
  // Whoever is there at the end has saved its last update, unless the disk was full then.
  const bool there_is_room = scenario.disk.full.empty() || scenario.disk.patient;
  for (const ReplicaId replica : witness.table().members()) {
    if (!there_is_room) continue;
    EXPECT_EQ(witness.checkpoint_of(replica), updates_of(witness, replica.value));
  }
  return simulation.digest();
}

TEST(RecoverySwarm, TheRunEnds) {
  run_swarm_of_digests({.seeds = 200, .share = 0.3},
                       [](uint64_t seed) { return run(random_scenario(seed)); });
}

}  // namespace
}  // namespace leeway::sim
