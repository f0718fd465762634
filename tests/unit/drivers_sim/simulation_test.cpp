#include "drivers/sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim_testing.h"

namespace leeway::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr StageCosts kCosts = {
    .forward = {100}, .backward = {200}, .update = {30}, .save = {5}, .evaluate = {90}};

// "F0 F1 B0 U1": what a stage did, in order.
std::string order_of(const Notebook& recorder, int64_t stage_index) {
  constexpr char kLetters[] = {'F', 'B', 'U', 'S', 'E'};
  std::string text;
  for (const WorkRecord& record : recorder.of(stage(stage_index))) {
    if (!text.empty()) text += ' ';
    text += kLetters[static_cast<size_t>(record.work.kind)] + std::to_string(record.work.index);
  }
  return text;
}

TEST(Simulation, TwoStagesByHand) {
  const RunPlan plan = plan_of({.stages = 2, .update_every = 2}, 2);
  Finished run(plan, {.costs = equal_costs(2, kCosts), .links = {.all = {.latency = {10}}}});
  EXPECT_EQ(order_of(run.recorder, 0), "F0 F1 B0 F2 B1 U1 F3 B2 B3 U2 S2");
  EXPECT_EQ(order_of(run.recorder, 1), "F0 B0 F1 B1 U1 F2 B2 F3 B3 U2 S2");
  // Stage 1: F0 arrives at 110 and takes to 210, B0 to 410. At stage 0 its gradient arrives at 420.
  EXPECT_EQ(run.recorder.of(stage(1), WorkKind::kForward)[0].times.begin, Nanos{110});
  EXPECT_EQ(run.recorder.of(stage(1), WorkKind::kBackward)[0].times.end, Nanos{410});
  EXPECT_EQ(run.recorder.of(stage(0), WorkKind::kBackward)[0].times.begin, Nanos{420});
}

TEST(Simulation, GpipeByHand) {
  const RunPlan plan =
      plan_of({.order = PipelineSchedule::kGpipe, .stages = 2, .update_every = 2}, 2);
  Finished run(plan, {.costs = equal_costs(2, kCosts)});
  EXPECT_EQ(order_of(run.recorder, 0), "F0 F1 B0 B1 U1 F2 F3 B2 B3 U2 S2");
  EXPECT_EQ(order_of(run.recorder, 1), "F0 F1 B0 B1 U1 F2 F3 B2 B3 U2 S2");
}

TEST(Simulation, EverythingHappensOnce) {
  RunPlan plan = plan_of({.stages = 3, .update_every = 2}, 6);
  plan.evaluate_every = 2;
  plan.evaluation_batches = 3;
  plan.checkpoint_every = 4;
  plan.activation_bytes = 1000;
  plan.evaluation_bytes = plan.activation_bytes;
  Finished run(plan, {.costs = equal_costs(3, kCosts)}, /*replicas=*/2);
  for (int64_t s = 0; s < 3; ++s) {
    EXPECT_EQ(run.recorder.of(stage(s), WorkKind::kForward).size(), 12U);
    EXPECT_EQ(run.recorder.of(stage(s), WorkKind::kBackward).size(), 12U);
    EXPECT_EQ(run.recorder.of(stage(s), WorkKind::kUpdate).size(), 6U);
    EXPECT_EQ(run.recorder.of(stage(s), WorkKind::kEvaluate).size(), 9U);
    EXPECT_EQ(run.recorder.of(stage(s), WorkKind::kSave).size(), 2U);
  }
  const auto links = run.simulation.links();
  // Two hops, two directions, twice; the evaluations' answer; and a copy from each stage of the
  // second replica.
  ASSERT_EQ(links.size(), 8U + 1U + 3U);
  EXPECT_EQ(links[0].messages, 12 + 9);
  EXPECT_EQ(links[0].payload_bytes, (12 + 9) * 1000);
  EXPECT_EQ(links[1].from, stage(1));
  EXPECT_EQ(links[1].to, stage(0));
  EXPECT_EQ(links[1].payload_bytes, 12 * 1000);
}

// Nothing travels for them, and nobody is waited for: replica 1 comes to update 2 long after.
TEST(Simulation, OwnWeightsAreEvaluatedByOneReplicaAlone) {
  RunPlan plan = plan_of({.stages = 2, .update_every = 2}, 7);
  plan.evaluate_every = 2;
  plan.evaluation_batches = 1;
  plan.evaluation.interval = 4;
  plan.evaluation.final_round = 7;
  const StageCosts slow = at_speed(kCosts, 0.01);
  Finished run(plan, {.costs = {kCosts, kCosts, slow, slow}}, /*replicas=*/2);
  const auto rounds = [&](int64_t replica, WorkKind kind) {
    std::vector<std::pair<int64_t, int64_t>> found;  // update, replicas in it
    for (const WorkRecord& record : run.recorder.of({{replica}, {1}}, kind)) {
      found.emplace_back(record.work.index, record.work.replicas.size());
    }
    return found;
  };
  EXPECT_THAT(rounds(0, WorkKind::kReduce),
              ElementsAre(Pair(2, 1), Pair(4, 2), Pair(6, 1), Pair(7, 2)));
  EXPECT_THAT(rounds(1, WorkKind::kContribute), ElementsAre(Pair(4, 1), Pair(7, 1)));
  EXPECT_LT(run.recorder.of({{0}, {1}}, WorkKind::kEvaluate)[0].times.end,
            run.recorder.of({{1}, {0}}, WorkKind::kUpdate)[0].times.begin);
}

TEST(Simulation, PayloadFactorsScaleTheBytesOnLinks) {
  RunPlan plan = plan_of({.stages = 2, .update_every = 2}, 1);
  plan.evaluate_every = 1;
  plan.evaluation_batches = 3;
  plan.activation_bytes = 1000;
  plan.evaluation_bytes = plan.activation_bytes;
  Finished run(plan, {.costs = equal_costs(2, kCosts),
                      .links = {.all = {.bytes_per_second = 1e9}},
                      .payloads = {{.hop = 3, .evaluation = 0}, {.hop = 5, .evaluation = 0}}});
  const auto links = run.simulation.links();
  EXPECT_EQ(links[0].messages, 2 + 3);
  EXPECT_EQ(links[0].payload_bytes, 2 * 3000);
  EXPECT_EQ(links[1].payload_bytes, 2 * 5000);
  // Stage 0 finishes the first microbatch after 100 ns; then its bytes travel.
  EXPECT_EQ(run.recorder.of(stage(1), WorkKind::kForward)[0].times.begin,
            Nanos{100 + 3000 + kHeaderBytes});
}

TEST(Simulation, DelaysFollowTheFormula) {
  for (const int64_t stages : {1, 2, 4, 8}) {
    // K = 1: P-1-s once the pipeline has filled.
    Finished paper(plan_of({.stages = stages}, 40), {.costs = equal_costs(stages, kCosts)});
    // K = auto: (P-1-s)/K on average.
    Finished automatic(plan_of({.stages = stages, .update_every = stages}, 40),
                       {.costs = equal_costs(stages, kCosts)});
    for (int64_t s = 0; s < stages; ++s) {
      for (const WorkRecord& record : paper.recorder.of(stage(s), WorkKind::kBackward)) {
        EXPECT_EQ(record.work.delay, std::min(record.work.index, stages - 1 - s));
      }
      int64_t sum = 0;
      for (const WorkRecord& record : automatic.recorder.of(stage(s), WorkKind::kForward)) {
        EXPECT_LE(record.work.delay, 1);
        if (record.work.update > 1) sum += record.work.delay;
      }
      EXPECT_EQ(sum, 39 * (stages - 1 - s));  // 39 updates of K microbatches
    }
  }
}

TEST(Simulation, ASlowerWorkerSetsThePace) {
  const RunPlan plan = plan_of({.stages = 2}, 50);
  Finished run(plan, {.costs = {kCosts, at_speed(kCosts, 0.5)}});
  EXPECT_EQ(run.steady_share(1), 1.0);
  EXPECT_NEAR(run.steady_share(0), 0.5, 0.03);
}

TEST(Simulation, CostsPerWorkerOrPerStage) {
  const RunPlan plan = plan_of({.stages = 2}, 4);
  Finished run(plan, {.costs = {kCosts, kCosts, at_speed(kCosts, 0.1), at_speed(kCosts, 0.1)}},
               /*replicas=*/2);
  const Nanos fast = run.simulation.busy(stage(1)).last_end();
  const Nanos slow = run.simulation.busy({.replica = {1}, .stage = {1}}).last_end();
  EXPECT_EQ(slow, 10 * fast);
}

SimulationOptions jittery(uint64_t seed) {
  return {.costs = equal_costs(4, kCosts),
          .links = {.seed = seed, .all = {.latency = {50}, .jitter = {500}}}};
}

TEST(Simulation, TheSameSeedGivesTheSameRun) {
  const RunPlan plan = plan_of({.stages = 4, .update_every = 2}, 20);
  Finished first(plan, jittery(1));
  Finished again(plan, jittery(1));
  Finished other(plan, jittery(2));
  EXPECT_EQ(first.simulation.digest(), again.simulation.digest());
  EXPECT_NE(first.simulation.digest(), other.simulation.digest());
  // Different timing, but the same work: a stage's order does not depend on when messages arrive.
  for (int64_t s = 0; s < 4; ++s)
    EXPECT_EQ(order_of(first.recorder, s), order_of(other.recorder, s));
}

TEST(Simulation, AStopRequestDrainsThePipeline) {
  for (const int64_t replicas : {1, 2}) {
    const RunPlan plan = with_replicas(plan_of({.stages = 4, .extra_per_hop = 1}, 1000), replicas);
    const IdleWorkers workers = make_mesh(plan);
    Simulation simulation(jittery(1));
    Notebook recorder;
    recorder.stop_after(200);
    ASSERT_TRUE(simulation.run(workers, recorder).ok());
    for (const auto& worker : workers) {
      EXPECT_TRUE(worker->done());
      EXPECT_LT(worker->counts().updates, 60);
      EXPECT_EQ(worker->counts().in_flight(), 0);
    }
    EXPECT_EQ(recorder.of(stage(0), WorkKind::kSave).size(), 1U);
  }
}

// When the last update was made, with disks that take this long.
Nanos last_update_with(Nanos save_time, Notebook& recorder) {
  RunPlan plan = plan_of({.stages = 4, .update_every = 4}, 1000);
  plan.checkpoint_every = 100;
  const RunPlan both = with_replicas(plan, 2);
  SimulationOptions options = jittery(1);
  options.save_time = save_time;
  const IdleWorkers workers = make_mesh(both);
  EXPECT_TRUE(Simulation(options).run(workers, recorder).ok());
  Nanos last;
  for (const WorkRecord& record : recorder.records()) {
    if (record.work.kind == WorkKind::kUpdate) last = std::max(last, record.times.end);
  }
  return last;
}

// A save that takes as long as 250 updates, of which every hundredth is saved.
TEST(Simulation, SlowDisksDoNotHoldUpUpdates) {
  Notebook quick;
  const Nanos without = last_update_with({}, quick);
  EXPECT_EQ(quick.stored(), 8 * 10);
  Notebook slow;
  const Nanos save_time = {without.count / 4};
  const Nanos with = last_update_with(save_time, slow);
  EXPECT_LE(static_cast<double>(with.count), static_cast<double>(without.count) / 0.95);
  // What finds the disk busy waits until a newer state comes; the last one is always written.
  EXPECT_GE(slow.stored(), 8 * 4);
  EXPECT_LT(slow.stored(), 8 * 10);
  EXPECT_EQ(slow.last_stored(), 8);
}

TEST(Simulation, AnAbandonedRunEndsAtOnce) {
  const RunPlan plan = plan_of({.stages = 4}, 1000);
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(jittery(1));
  Notebook recorder;
  recorder.abandon_after(100);
  ASSERT_TRUE(simulation.run(workers, recorder).ok());
  EXPECT_LT(recorder.records().size(), 105U);
  EXPECT_FALSE(workers[0]->done());
}

TEST(Simulation, EndsWithASentenceWhereTimeDoes) {
  const RunPlan plan = plan_of({.stages = 2, .update_every = 2}, 50);
  const LinkTrace trace({{.at = {0}, .bytes_per_second = 1e-7, .latency = {}},
                         {.at = {1'000'000'000}, .bytes_per_second = 0, .latency = {}}});
  StageCosts years = kCosts;
  years.backward = {Nanos::max().count / 60};
  StageCosts for_ever = kCosts;
  for_ever.update = Nanos::max();
  for (const SimulationOptions& options :
       {SimulationOptions{.costs = equal_costs(2, years)},
        SimulationOptions{.costs = equal_costs(2, for_ever)},
        SimulationOptions{.costs = equal_costs(2, kCosts),
        .links = {.all = {.bytes_per_second = 1e-12}}},
        SimulationOptions{.costs = equal_costs(2, kCosts), .links = {.all = {.trace = &trace}}}}) {
    const IdleWorkers workers = make_mesh(plan);
    Notebook recorder;
    Simulation simulation(options);
    const Status status = simulation.run(workers, recorder);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(status.error().message.find("simulated time ran out after 292 years: "), 0U);
    EXPECT_LT(simulation.clock().now(), Nanos::max());
  }
}

TEST(SimulationDeathTest, NamesTheWorkersThatWaitForever) {
  const RunPlan short_plan = plan_of({.stages = 2}, 1);
  const RunPlan long_plan = plan_of({.stages = 2}, 2);
  IdleWorkers workers;
  workers.push_back(std::make_unique<Worker>(stage(0), short_plan, nullptr));
  workers.push_back(std::make_unique<Worker>(stage(1), long_plan, nullptr));
  Notebook recorder;
  EXPECT_DEATH(
      { (void)Simulation({.costs = equal_costs(2, kCosts)}).run(workers, recorder); },
      "deadlock: 1 of 2 workers wait.*replica 0 stage 1 after 1 forwards, 1 backwards, 1 updates");
}

}  // namespace
}  // namespace leeway::sim
