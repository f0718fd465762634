// What every driver must do for its workers: one suite for all drivers. The workers compute
// nothing, so that only the drivers are tested.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "../support/memory_store.h"
#include "../support/mesh_without_compute.h"
#include "../support/zmq_posts.h"
#include "drivers/sim/replay.h"
#include "drivers/sim/simulation.h"
#include "drivers/threads/threads.h"
#include "events/traffic.h"

namespace leeway {
namespace {

std::unique_ptr<Driver> make_simulation(int64_t stages) {
  sim::SimulationOptions options;
  for (int64_t s = 0; s < stages; ++s) {
    options.costs.push_back({.forward = {100 + 7 * s}, .backward = {200 - 9 * s}, .update = {30}});
  }
  options.links = {.seed = 1, .all = {.latency = {50}, .bytes_per_second = 1e9, .jitter = {400}}};
  return std::make_unique<sim::Simulation>(options);
}

std::unique_ptr<Driver> make_threads(int64_t) { return std::make_unique<threads::Threads>(1); }

// What a network may do: every message passes through bytes, comes twice, is overtaken by others.
std::unique_ptr<Driver> make_network(int64_t stages) {
  sim::SimulationOptions options;
  for (int64_t s = 0; s < stages; ++s) {
    options.costs.push_back({.forward = {100 + 7 * s}, .backward = {200 - 9 * s}, .update = {30}});
  }
  options.links = {.seed = 1, .all = {.latency = {50}, .bytes_per_second = 1e9, .jitter = {400}}};
  options.messages = {
      .seed = 3, .twice = 0.3, .lost = 0, .class_jitter = {900}, .through_bytes = true};
  return std::make_unique<sim::Simulation>(options);
}

struct DriverCase {
  std::string name;
  std::function<std::unique_ptr<Driver>(int64_t stages)> make;
};

const std::vector<PipelineShape> kShapes = {
    {.stages = 1},
    {.stages = 1, .update_every = 3},
    {.stages = 2},
    {.stages = 4, .update_every = 4},
    {.stages = 4, .update_every = 3, .extra_per_hop = 2},
    {.order = PipelineSchedule::k1f1b, .stages = 3, .update_every = 5},
    {.order = PipelineSchedule::kGpipe, .stages = 4, .update_every = 2},
};

class Conformance : public testing::TestWithParam<DriverCase> {
 protected:
  static void run(const IdleWorkers& workers, int64_t stages, Notebook& recorder) {
    const std::unique_ptr<Driver> driver = GetParam().make(stages);
    ASSERT_TRUE(driver->run(workers, recorder).ok());
  }
};

RunPlan busy_plan(const PipelineShape& shape) {
  RunPlan plan = plan_of(shape, 12);
  plan.evaluate_every = 3;
  plan.evaluation_batches = 2;
  plan.checkpoint_every = 5;
  plan.activation_bytes = 1000;
  plan.evaluation_bytes = plan.activation_bytes;
  return plan;
}

bool is_training(const WorkRecord& record) {
  return !is_evaluation(record.work) && record.work.kind != WorkKind::kSave;
}

TEST_P(Conformance, EverythingIsDoneOnce) {
  for (const PipelineShape& shape : kShapes) {
    const RunPlan plan = with_replicas(busy_plan(shape), 2);
    const IdleWorkers workers = make_mesh(plan);
    Notebook recorder;
    run(workers, shape.stages, recorder);
    for (const auto& worker : workers) {
      EXPECT_TRUE(worker->done());
      const auto microbatches = static_cast<size_t>(12 * shape.update_every);
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kForward).size(), microbatches);
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kBackward).size(), microbatches);
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kUpdate).size(), 12U);
      const bool evaluates = worker->id().replica.value == 0;
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kEvaluate).size(), evaluates ? 4U * 2U : 0U);
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kContribute).size(), 4U) << "copies";
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kSave).size(), 3U);
    }
  }
}

// A state may make room for a newer one of its worker, but never the one that a session ends with.
TEST_P(Conformance, WhatASessionEndsWithIsStored) {
  for (const PipelineShape& shape : kShapes) {
    const RunPlan plan = with_replicas(busy_plan(shape), 2);
    const IdleWorkers workers = make_mesh(plan);
    Notebook recorder;
    MemoryStore store;
    ASSERT_TRUE(GetParam().make(shape.stages)->run(workers, recorder, &store).ok());
    EXPECT_EQ(recorder.stored(), std::ssize(store.states));
    EXPECT_EQ(recorder.last_stored(), std::ssize(workers));
    const std::vector<StageState> last = store.states_at(12);
    ASSERT_EQ(last.size(), workers.size());
    for (size_t at = 0; at < last.size(); ++at) EXPECT_EQ(last[at].worker, workers[at]->id());
  }
}

// Includes versions and delays: if they match, so does the compute.
TEST_P(Conformance, AStagesOrderDoesNotDependOnTiming) {
  for (const PipelineShape& shape : kShapes) {
    const RunPlan plan = busy_plan(shape);
    const IdleWorkers workers = make_mesh(plan);
    Notebook recorder;
    run(workers, shape.stages, recorder);
    sim::SimulationOptions instant;
    instant.costs.resize(static_cast<size_t>(shape.stages));
    Notebook reference;
    ASSERT_TRUE(sim::Simulation(instant).run(make_mesh(plan), reference).ok());
    for (const auto& worker : workers) {
      std::vector<Work> here;
      std::vector<Work> there;
      for (const WorkRecord& record : recorder.of(worker->id())) {
        if (is_training(record)) here.push_back(record.work);
      }
      for (const WorkRecord& record : reference.of(worker->id())) {
        if (is_training(record)) there.push_back(record.work);
      }
      EXPECT_TRUE(here == there) << "stage " << worker->id().stage.value;
    }
  }
}

TEST_P(Conformance, AWorkerDoesOneThingAtATime) {
  const RunPlan plan = busy_plan({.stages = 4, .update_every = 2});
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  run(workers, 4, recorder);
  for (const auto& worker : workers) {
    const auto records = recorder.of(worker->id());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_LE(records[i].times.begin, records[i].times.end);
      if (i == 0) continue;
      EXPECT_LE(records[i - 1].times.end, records[i].times.begin);
    }
  }
}

TEST_P(Conformance, RecordedBytesAddUp) {
  const RunPlan plan = busy_plan({.stages = 3, .update_every = 2});
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  run(workers, 3, recorder);
  for (const auto& worker : workers) {
    int64_t recorded = 0;
    for (const WorkRecord& record : recorder.of(worker->id())) recorded += record.bytes_sent;
    const int64_t stage = worker->id().stage.value;
    const int64_t forwards =
        stage < 2 ? 24 + 4 * 2 : 0;  // activations of training and of evaluations
    const int64_t backwards = stage > 0 ? 24 : 0;
    EXPECT_EQ(recorded, 1000 * (forwards + backwards));
  }
}

// The recorder may be in another process: what it knows of workers is what they have told it.
TEST_P(Conformance, WhatWorkersReportIsWhatTheyDid) {
  RunPlan plan = with_replicas(busy_plan({.stages = 3, .update_every = 2}), 2);
  plan.lanes = {{.replicas = 2, .interval = 1, .update_every = 2, .lag_backwards = 1}};
  const CutOptions cut = {.parameters = 1000, .fraction = 0.5, .granularity = 1};
  plan.lanes.front().sizes.assign(3, {.cut = cut});
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  run(workers, 3, recorder);
  for (const auto& worker : workers) {
    TallyKeeper done(worker->id(), plan);
    for (const WorkRecord& record : recorder.of(worker->id())) done.worked(record);
    ASSERT_TRUE(recorder.tallies().contains(worker->id()));
    const WorkTally& told = recorder.tallies().at(worker->id());
    EXPECT_EQ(told.bytes, done.tally().bytes);
    EXPECT_GT(told.bytes.averaging, 0);
    EXPECT_EQ(told.busy, done.tally().busy);
    EXPECT_EQ(told.delay_sum, done.tally().delay_sum);
    EXPECT_EQ(told.merges, done.tally().merges);
    EXPECT_EQ(told.next_round, done.tally().next_round);
    EXPECT_EQ(told.contributors, done.tally().contributors);
  }
}

// The log is in causal order: no record comes before those it depends on.
TEST_P(Conformance, TheRecordsCanBeReplayed) {
  for (const PipelineShape& shape : kShapes) {
    const RunPlan plan = busy_plan(shape);
    const int repeats = GetParam().name == "tcp" ? 2 : 20;
    for (int repeat = 0; repeat < repeats; ++repeat) {  // threads give a different order each time
      Notebook recorder;
      run(make_mesh(plan), shape.stages, recorder);
      RunPlan again = plan;
      again.evaluation_batches = 0;
      again.saves = false;
      Notebook replayed;
      const Status status = sim::replay(make_mesh(again), recorder.records(), replayed);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }
}

TEST_P(Conformance, AStopRequestDrainsThePipeline) {
  for (const PipelineShape& shape : kShapes) {
    const RunPlan plan = with_replicas(plan_of(shape, 1'000'000), 2);
    const IdleWorkers workers = make_mesh(plan);
    Notebook recorder;
    recorder.stop_after(100);
    run(workers, shape.stages, recorder);
    for (const auto& worker : workers) {
      const WorkerId first = {.replica = worker->id().replica, .stage = {0}};
      EXPECT_TRUE(worker->done());
      EXPECT_LT(worker->counts().updates, 1'000'000);
      EXPECT_EQ(worker->counts().in_flight(), 0);
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kUpdate).size(),
                recorder.of(first, WorkKind::kUpdate).size());
      EXPECT_EQ(recorder.of(worker->id(), WorkKind::kSave).size(), 1U);
    }
  }
}

TEST_P(Conformance, AnAbandonedRunEnds) {
  const RunPlan plan = plan_of({.stages = 4, .update_every = 2}, 1'000'000);
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  recorder.abandon_after(100);
  run(workers, 4, recorder);
  for (const auto& worker : workers) EXPECT_FALSE(worker->done());
}

TEST_P(Conformance, ARunThatIsOverEndsAtOnce) {
  RunPlan plan = plan_of({.stages = 3}, 5);
  plan.first_update = 5;
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  run(workers, 3, recorder);
  EXPECT_TRUE(recorder.records().empty());
}

TEST_P(Conformance, ASessionMayBeginAnywhere) {
  RunPlan plan = busy_plan({.stages = 3, .update_every = 2});
  plan.first_update = 7;
  const IdleWorkers workers = make_mesh(plan);
  Notebook recorder;
  run(workers, 3, recorder);
  for (const auto& worker : workers) {
    const auto forwards = recorder.of(worker->id(), WorkKind::kForward);
    ASSERT_EQ(forwards.size(), 10U);
    EXPECT_EQ(forwards.front().work.index, 14);
    EXPECT_EQ(forwards.front().work.version, 7);
    EXPECT_EQ(worker->counts().updates, 12);
  }
}

std::vector<DriverCase> drivers() {
  std::vector<DriverCase> all = {{"sim", make_simulation},
                                 {"threads", make_threads},
                                 {"network", make_network},
                                 {"processes", one_process_each}};
#ifdef LEEWAY_MESH_OVER_TCP
  all.push_back({"tcp", one_process_each_over_tcp});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance, testing::ValuesIn(drivers()),
                         [](const auto& driver) { return driver.param.name; });

}  // namespace
}  // namespace leeway
