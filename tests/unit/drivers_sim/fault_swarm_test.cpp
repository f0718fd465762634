// Faults of the data axis: slow links, links that lose everything for a while, replicas that pause
// or leave for good. The others never wait for them, and a replica that returns counts again.
#include <gtest/gtest.h>

#include <algorithm>

#include "round_plans.h"

namespace leeway::sim {
namespace {

constexpr Nanos kDeadline = {10'000'000};

struct FaultScenario {
  RunPlan plan;
  SimulationOptions healthy;  // without the fault
  SimulationOptions options;
  int64_t victim = 0;
};

Mesh mesh_of_plan(const RunPlan& plan) {
  return {.stages = plan.shape.stages, .replicas = plan.replicas};
}

RunPlan random_plan(Dice& dice) {
  const std::array<Method, 3> methods = {Method::kSparse, Method::kLowbit, Method::kDiloco};
  RunPlan plan = random_pipeline(dice, dice(30, 90));
  const std::array<int64_t, 3> replicas = {2, 3, 5};
  add_lanes({.method = methods[static_cast<size_t>(dice(0, 2))],
             .replicas = replicas[static_cast<size_t>(dice(0, 2))],
             .cycle = dice(1, 10),
             .lag_backwards = {},
             .deadline = kDeadline,
             .follows = dice.one_in(2)},
            plan);
  mix_evaluations(plan);
  return plan;
}

void add_fault(Dice& dice, FaultScenario& scenario) {
  const Mesh mesh = mesh_of_plan(scenario.plan);
  const ReplicaId victim = {scenario.victim};
  const WorkerId worker = {.replica = victim, .stage = {dice(0, mesh.stages - 1)}};
  const Nanos begin = dice(5, 60) * kMillisecond;
  const Nanos length = dice(1, 100) * kMillisecond;
  SimulationOptions& options = scenario.options;
  switch (dice(0, 4)) {
    case 0:  // slow both ways
      for (int64_t r = 0; r < mesh.replicas; ++r) {
        const WorkerId other = {.replica = {r}, .stage = worker.stage};
        const LinkOptions slow = {.latency = length};
        if (other == worker) continue;
        options.links.exceptions.push_back({.from = worker, .to = other, .options = slow});
        options.links.exceptions.push_back({.from = other, .to = worker, .options = slow});
      }
      return;
    case 1:
      options.outages = cut_off(mesh, worker, {begin, begin + length});
      return;
    case 2:  // a long pause
      for (int64_t s = 0; s < mesh.stages; ++s) {
        options.pauses.push_back(
            {.worker = {.replica = victim, .stage = {s}}, .begin = begin, .length = 3 * length});
      }
      return;
    case 3:
      options.departures = departures_of(mesh, victim, begin);
      return;
    default:  // one stage leaves: the replica's others stay, and still own chunks
      options.departures = {{.worker = worker, .at = begin}};
      return;
  }
}

FaultScenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  FaultScenario scenario = {.plan = random_plan(dice), .healthy = {}, .options = {}};
  const Mesh mesh = mesh_of_plan(scenario.plan);
  for (size_t i = 0; i < mesh.count(); ++i) {
    scenario.healthy.costs.push_back(random_costs(dice, /*slowness=*/1));
  }
  scenario.healthy.links = {
      .seed = seed,
      .all = {.latency = dice(0, 2000) * kMicrosecond, .jitter = dice(0, 1000) * kMicrosecond},
      .exceptions = {}};
  scenario.options = scenario.healthy;
  scenario.victim = dice(0, mesh.replicas - 1);
  add_fault(dice, scenario);
  return scenario;
}

// When each replica finished its last update; none: it never did.
std::vector<std::optional<Nanos>> ends_of(const RunPlan& plan, const SimulationOptions& options) {
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(options);
  Notebook recorder;
  EXPECT_TRUE(simulation.run(workers, recorder).ok());
  std::vector<std::optional<Nanos>> ends(static_cast<size_t>(plan.replicas));
  for (const WorkRecord& record : recorder.records()) {
    if (record.work.kind != WorkKind::kUpdate || record.work.index != plan.last_update) continue;
    auto& end = ends[static_cast<size_t>(record.worker.replica.value)];
    end = std::max(end.value_or(Nanos{0}), record.times.end);
  }
  return ends;
}

// Replicas never wait for each other. All a fault can cost the others is an owner's extra work and,
// at replica 0, the deadlines of evaluations for which a copy is missing.
void expect_on_time(const FaultScenario& scenario) {
  const auto healthy = ends_of(scenario.plan, scenario.healthy);
  const auto ends = ends_of(scenario.plan, scenario.options);
  const int64_t evaluations = scenario.plan.evaluate_every == 0
                                  ? 1
                                  : scenario.plan.last_update / scenario.plan.evaluate_every + 1;
  for (size_t r = 0; r < ends.size(); ++r) {
    if (static_cast<int64_t>(r) == scenario.victim) continue;
    ASSERT_TRUE(ends[r].has_value()) << "replica " << r;
    const Nanos tenth = {healthy[r]->count / 10};
    EXPECT_LE(*ends[r], *healthy[r] + tenth + (2 + evaluations) * kDeadline) << "replica " << r;
  }
  if (scenario.options.departures.empty()) {
    EXPECT_TRUE(ends[static_cast<size_t>(scenario.victim)].has_value());
  }
}

TEST(FaultSwarm, TheOthersFinishOnTime) {
  run_swarm({.seeds = 100, .share = 0.15},
            [](uint64_t seed) { expect_on_time(random_scenario(seed)); });
}

// Three replicas of two stages, sparse rounds in cycles of five.
struct Trio {
  explicit Trio(Method method, int64_t updates) : plan(plan_of({.stages = 2}, updates)) {
    plan.replicas = 3;
    add_lanes({.method = method, .replicas = 3, .deadline = kDeadline}, plan);
    const StageCosts costs = {.forward = kMillisecond,
                              .backward = 2 * kMillisecond,
                              .update = 100 * kMicrosecond,
                              .rounds = RoundCosts::each(10 * kMicrosecond)};
    options = {
        .costs = std::vector<StageCosts>(6, costs),
        .links = {.seed = 3, .all = {.latency = 300 * kMicrosecond, .jitter = 200 * kMicrosecond}}};
  }
  void slow_down(size_t replica, double speed) {
    for (const size_t worker : {2 * replica, 2 * replica + 1}) {
      options.costs[worker] = at_speed(options.costs[worker], speed);
    }
  }

  RunPlan plan;
  SimulationOptions options;
};

bool is_main(const WorkRecord& record, WorkKind kind) {
  return record.work.kind == kind && record.work.lane == Lane::kMain;
}

// Rounds of the main lane whose mean includes the replica, each once.
std::vector<int64_t> counted_rounds(const Notebook& recorder, ReplicaId replica) {
  std::vector<int64_t> rounds;
  for (const WorkRecord& record : recorder.records()) {
    const bool counted =
        is_main(record, WorkKind::kReduce) && record.work.replicas.contains(replica);
    if (counted && record.worker.stage.value == 0) rounds.push_back(record.work.index);
  }
  std::sort(rounds.begin(), rounds.end());
  rounds.erase(std::unique(rounds.begin(), rounds.end()), rounds.end());
  return rounds;
}

// The newest round that stage 0 of any replica had begun by this time.
int64_t fleet_round(const Notebook& recorder, Nanos time) {
  int64_t newest = 0;
  for (const WorkRecord& record : recorder.records()) {
    if (record.times.end > time || !is_main(record, WorkKind::kContribute)) continue;
    if (record.worker.stage.value == 0) newest = std::max(newest, record.work.index);
  }
  return newest;
}

class FaultMethods : public testing::TestWithParam<Method> {};

TEST_P(FaultMethods, APausedReplicaCountsAgainWithinTwoCycles) {
  Trio trio(GetParam(), 200);
  const Nanos begin = 100 * kMillisecond;
  const Nanos length = 250 * kMillisecond;  // the others make some seventy updates
  for (int64_t s = 0; s < 2; ++s) {
    trio.options.pauses.push_back(
        {.worker = {.replica = {1}, .stage = {s}}, .begin = begin, .length = length});
  }
  Finished run(trio.plan, trio.options, /*replicas=*/3);
  const int64_t awake = fleet_round(run.recorder, begin + length);
  const int64_t cycle = trio.plan.lanes[0].cycle;
  const auto counted = counted_rounds(run.recorder, {1});
  const auto again = std::upper_bound(counted.begin(), counted.end(), awake);
  ASSERT_NE(again, counted.end());
  EXPECT_LE(*again, awake + 2 * cycle + 4);
  // From then on it counts in almost every round.
  const int64_t last = counted.back();
  EXPECT_GE(std::distance(again, counted.end()), (last - *again) * 8 / 10);
}

TEST_P(FaultMethods, AReplicaThatWasCutOffCountsAgainWithinTwoCycles) {
  Trio trio(GetParam(), 200);
  const Window window = {100 * kMillisecond, 350 * kMillisecond};
  for (int64_t s = 0; s < 2; ++s) {
    const auto cut = cut_off({.stages = 2, .replicas = 3}, {.replica = {1}, .stage = {s}}, window);
    trio.options.outages.insert(trio.options.outages.end(), cut.begin(), cut.end());
  }
  Finished run(trio.plan, trio.options, /*replicas=*/3);
  const int64_t back = fleet_round(run.recorder, window.end);
  const auto counted = counted_rounds(run.recorder, {1});
  // Rounds it averaged by itself while cut off do not count.
  const auto again = std::upper_bound(counted.begin(), counted.end(), back);
  ASSERT_NE(again, counted.end());
  EXPECT_LE(*again, back + 2 * trio.plan.lanes[0].cycle + 4);
}

// At half speed it takes part in every second round; at an eighth in every eighth, and counts in at
// least half of those.
TEST_P(FaultMethods, ASlowReplicaCountsDuringTheWholeRun) {
  for (const double speed : {0.5, 0.125}) {
    Trio trio(GetParam(), 240);
    trio.slow_down(2, speed);
    Finished run(trio.plan, trio.options, /*replicas=*/3);
    const auto fast_end = run.recorder.of({{0}, {0}}, WorkKind::kUpdate).back().times.end;
    const int64_t rounds = fleet_round(run.recorder, fast_end);
    const auto counted = counted_rounds(run.recorder, {2});
    for (int64_t quarter = 0; quarter < 4; ++quarter) {
      const auto from = std::lower_bound(counted.begin(), counted.end(), quarter * rounds / 4);
      const auto to = std::lower_bound(counted.begin(), counted.end(), (quarter + 1) * rounds / 4);
      const double share = static_cast<double>(to - from) / (static_cast<double>(rounds) / 4);
      EXPECT_GE(share, 0.4 * speed) << "speed " << speed << " quarter " << quarter;
    }
  }
}

TEST_P(FaultMethods, OthersDoNotWaitForChunksOfAReplicaThatIsGone) {
  Trio trio(GetParam(), 100);
  Finished healthy(trio.plan, trio.options, /*replicas=*/3);
  trio.options.departures = departures_of({.stages = 2, .replicas = 3}, {1}, 61 * kMillisecond);
  Finished run(trio.plan, trio.options, /*replicas=*/3);
  EXPECT_FALSE(run.workers[2]->done());
  for (const int64_t r : {0, 2}) {
    const auto last = run.recorder.of({{r}, {0}}, WorkKind::kUpdate).back();
    const auto was = healthy.recorder.of({{r}, {0}}, WorkKind::kUpdate).back();
    EXPECT_EQ(last.work.index, 100);
    EXPECT_LE(last.times.end, was.times.end + 2 * kDeadline);
  }
}

// With a fixed lag an owner waits for everybody's part. After two changes of owners one may own a
// chunk again whose parts it has dropped, and one that gave the round up is not waited for.
TEST_P(FaultMethods, TwoThatLeaveOneAfterTheOtherHoldUpNobody) {
  for (int64_t after = 0; after <= 60; ++after) {
    RunPlan plan = plan_of({.stages = 1}, 30);
    add_lanes({.method = GetParam(), .replicas = 4, .lag_backwards = 3}, plan);
    SimulationOptions options;
    options.links = {.seed = static_cast<uint64_t>(after),
                     .all = {.latency = 300 * kMicrosecond, .jitter = 5 * kMillisecond},
                     .exceptions = {}};
    for (int64_t r = 0; r < 4; ++r) {
      options.costs.push_back({.forward = (1 + r) * kMillisecond, .backward = 2 * kMillisecond});
    }
    options.departures = {{.worker = {{0}, {0}}, .at = 20 * kMillisecond},
                          {.worker = {{1}, {0}}, .at = (20 + after) * kMillisecond}};
    Finished run(plan, options, /*replicas=*/4);
    for (const int64_t r : {2, 3}) {
      EXPECT_EQ(run.recorder.of({{r}, {0}}, WorkKind::kUpdate).back().work.index, 30);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FaultMethods, testing::Values(Method::kSparse, Method::kLowbit),
                         [](const auto& method) {
                           return method.param == Method::kSparse ? "Sparse" : "Lowbit";
                         });

}  // namespace
}  // namespace leeway::sim
