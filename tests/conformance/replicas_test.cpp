// Replicas with real compute: a run on threads that merged on arrival is repeated bit for bit, and
// a run resumed from a checkpoint gives the bits of one that never stopped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../support/joined_states.h"
#include "../support/memory_store.h"
#include "config/words.h"
#include "drivers/sim/replay.h"
#include "drivers/threads/threads.h"
#include "trio.h"

namespace leeway {
namespace {

class StateRecorder final : public Recorder {
 public:
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    records.push_back(record);
    if (records.size() == stop_after) ask_(Ask::kStop);
  }
  void updated(const StageUpdate&) override {}
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}

  std::vector<WorkRecord> records;
  size_t stop_after = SIZE_MAX;

 private:
  AskRun ask_;
};

Recipe recipe_of(AveragingMethod method) {
  Recipe recipe = trio_recipe(method);
  recipe.run.updates = 24;
  recipe.run.checkpoint_every = 8;
  recipe.run.evaluate_every = 6;
  recipe.run.evaluate_windows = 4;
  recipe.data.batch = 2;
  recipe.pipeline.update_every = 2;
  recipe.averaging.granularity = 4;
  if (method == AveragingMethod::kSparse) recipe.averaging.fraction = 0.25;
  if (method == AveragingMethod::kDiloco) recipe.averaging.interval = 4;
  return recipe;
}

class Replicas : public testing::TestWithParam<AveragingMethod> {
 protected:
  MeshData data() const { return {tokens_.file(), &tokens_.file(), kVocabulary}; }

  void expect_replay(const Recipe& recipe, const Workers& workers, const StateRecorder& recorder) {
    const RunPlan plan = as_replay(make_plan(recipe, data()), workers.front()->counts().updates);
    const Workers again = make_workers(recipe, data(), plan);
    StateRecorder replayed;
    const Status status = sim::replay(again, recorder.records, replayed);
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_same_weights(workers, again);
  }

  Tokens tokens_{801};
};

TEST_P(Replicas, RepeatsWhatThreadsMergedOnArrival) {
  for (const double deadline_ms : {1000.0, 0.01}) {
    for (int repeat = 0; repeat < 5; ++repeat) {  // the order differs each time
      SCOPED_TRACE(fmt::format("deadline {} ms, repeat {}", deadline_ms, repeat));
      Recipe recipe = recipe_of(GetParam());
      recipe.averaging.merge = MergePolicy::kOnArrival;
      recipe.averaging.deadline_ms = deadline_ms;
      const RunPlan plan = make_plan(recipe, data());
      const Workers workers = make_workers(recipe, data(), plan);
      StateRecorder recorder;
      ASSERT_TRUE(threads::Threads(1).run(workers, recorder).ok());
      expect_replay(recipe, workers, recorder);
    }
  }
}

// Links that are slow compared with the work, and a replica that pauses: merges with long lags,
// rounds that miss replicas, followers.
TEST_P(Replicas, RepeatsWhatVirtualTimeMergedOnArrival) {
  Recipe recipe = recipe_of(GetParam());
  recipe.run.updates = 60;
  recipe.run.checkpoint_every = 25;
  recipe.averaging.merge = MergePolicy::kOnArrival;
  recipe.averaging.deadline_ms = 0.002;
  const RunPlan plan = make_plan(recipe, data());
  const Workers workers = make_workers(recipe, data(), plan);
  sim::SimulationOptions options = {
      .costs = std::vector<sim::StageCosts>(
          6, {{100}, {200}, {50}, {10}, {90}, sim::RoundCosts::each({10})}),
      .links = {.seed = 4, .all = {.latency = {700}, .jitter = {3000}}, .exceptions = {}}};
  for (int64_t s = 0; s < 2; ++s) {
    options.pauses.push_back({.worker = {{1}, {s}}, .begin = {8000}, .length = {15'000}});
    options.costs[static_cast<size_t>(4 + s)] = sim::at_speed(options.costs[0], 0.4);
  }
  StateRecorder recorder;
  ASSERT_TRUE(sim::Simulation(options).run(workers, recorder).ok());
  expect_replay(recipe, workers, recorder);
}

TEST_P(Replicas, ResumingFromACheckpointGivesTheBitsOfTheWholeRun) {
  for (const double lag : {0.0, 0.5, 1.0, 3.0}) {
    SCOPED_TRACE(fmt::format("lag {:g}", lag));
    Recipe recipe = recipe_of(GetParam());
    recipe.averaging.merge = MergePolicy::kFixedLag;
    recipe.averaging.lag = lag;
    const RunPlan plan = make_plan(recipe, data());
    const Workers whole = make_workers(recipe, data(), plan);
    StateRecorder recorder;
    ASSERT_TRUE(threads::Threads(1).run(whole, recorder).ok());

    RunPlan first = plan;
    first.last_update = 16;
    MemoryStore store;
    StateRecorder first_recorder;
    ASSERT_TRUE(
        threads::Threads(1).run(make_workers(recipe, data(), first), first_recorder, &store).ok());
    const ModelState state = join(store.states_at(16), /*stages=*/2);
    RunPlan rest = plan;
    rest.first_update = 16;
    for (const ReplicaState& replica : state.replicas) {
      rest.starts.push_back({.update = 16, .rounds = replica.rounds});
    }
    const Workers resumed = make_workers(recipe, data(), rest);
    ASSERT_TRUE(restore(resumed, recipe, state).ok());
    StateRecorder rest_recorder;
    sim::SimulationOptions options = {
        .costs = std::vector<sim::StageCosts>(
            6, {{100}, {200}, {50}, {10}, {90}, sim::RoundCosts::each({10})}),
        .links = {.seed = 4, .all = {.latency = {70}, .jitter = {900}}, .exceptions = {}}};
    ASSERT_TRUE(sim::Simulation(options).run(resumed, rest_recorder).ok());
    expect_same_weights(whole, resumed);
  }
}

// Replicas that never wait for each other may end at different updates, but all end soon.
TEST_P(Replicas, AStopRequestEndsEveryReplica) {
  for (const MergePolicy merge : {MergePolicy::kOnArrival, MergePolicy::kFixedLag}) {
    Recipe recipe = recipe_of(GetParam());
    recipe.run.updates = 100'000;
    recipe.averaging.merge = merge;
    const RunPlan plan = make_plan(recipe, data());
    const Workers workers = make_workers(recipe, data(), plan);
    StateRecorder recorder;
    recorder.stop_after = 200;
    ASSERT_TRUE(threads::Threads(1).run(workers, recorder).ok());
    for (const auto& worker : workers) {
      EXPECT_TRUE(worker->done());
      EXPECT_LT(worker->counts().updates, recipe.run.updates / 2);
      EXPECT_EQ(worker->counts().updates,
                workers[static_cast<size_t>(worker->id().replica.value) * 2]->counts().updates);
      if (merge == MergePolicy::kFixedLag) {
        EXPECT_EQ(worker->counts().updates, workers[0]->counts().updates);
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<AveragingMethod>& method) {
  return std::string(word_of(method.param));
}
INSTANTIATE_TEST_SUITE_P(Methods, Replicas,
                         testing::Values(AveragingMethod::kSparse, AveragingMethod::kLowbit,
                                         AveragingMethod::kDiloco),
                         name_of);

}  // namespace
}  // namespace leeway
