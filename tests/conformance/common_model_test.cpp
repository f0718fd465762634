// One common model with real compute: whatever happens to links, workers and replicas, all that are
// left at the end have the same bits of it, in real time and in virtual time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "../support/memory_store.h"
#include "drivers/sim/replay.h"
#include "drivers/threads/threads.h"
#include "trio.h"

namespace leeway {
namespace {

constexpr int64_t kUpdates = 60;
constexpr sim::Window kFault = {{20'000}, {30'000}};  // of the simulator

// What workers say when they have finished, and who was there at the end.
class Watcher final : public Recorder {
 public:
  explicit Watcher(std::function<void(const StageUpdate&)> on_update)
      : on_update_(std::move(on_update)) {}
  void worked(const WorkRecord& record) override {
    repeats += record.work.kind == WorkKind::kRepeat ? 1 : 0;
    if (in_order) records.push_back(record);
  }
  void updated(const StageUpdate& update) override {
    if (on_update_) on_update_(update);
  }
  void members(const Membership& table) override { left = table.members(); }
  void finished(WorkerId worker, const Finished& finished) override { ends[worker] = finished; }
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}

  ReplicaSet left = ReplicaSet::first(kReplicas);
  std::map<WorkerId, Finished> ends;
  std::atomic<int64_t> repeats = 0;
  bool in_order = false;  // one thread works
  std::vector<WorkRecord> records;

 private:
  std::function<void(const StageUpdate&)> on_update_;
};

// Large enough that each replica owns a chunk.
Recipe common_recipe() {
  Recipe recipe = trio_recipe(AveragingMethod::kLowbit);
  recipe.run.updates = kUpdates;
  recipe.run.evaluate_every = 5;
  recipe.run.evaluate_windows = 2;
  recipe.run.join_mbit = 1e6;
  recipe.model.width = 64;
  recipe.model.hidden = 64;
  recipe.data.batch = 1;
  recipe.averaging.merge = MergePolicy::kOnArrival;
  recipe.averaging.deadline_ms = 0.004;
  return recipe;
}

struct Ended {
  int64_t differed = 0;
  int64_t repeats = 0;
  ReplicaSet left;
};

class CommonModels : public testing::Test {
 protected:
  // `disturb`: called with each update.
  Ended run(Driver& driver, const std::function<void(const StageUpdate&)>& disturb = {}) {
    const RunPlan plan = make_plan(recipe, data_);
    EXPECT_EQ(plan.lanes.front().chunks({0}), kReplicas);
    const Workers workers = make_workers(recipe, data_, plan);
    places = places_of(workers);
    driver.fill_places(maker_into(places, recipe, data_, plan));
    MemoryStore disk;
    Watcher watcher(disturb);
    EXPECT_TRUE(driver.run(workers, watcher, &disk).ok());
    Ended ended = {.repeats = watcher.repeats, .left = watcher.left};
    for (const auto& [worker, end] : watcher.ends) ended.differed += end.rounds.differed;
    const ReplicaId first = ended.left.members().front();
    for (const ReplicaId replica : ended.left) {
      for (int64_t s = 0; s < kStages; ++s) {
        SCOPED_TRACE(fmt::format("replica {} stage {}", replica.value, s));
        const Finished& end = watcher.ends[{replica, {s}}];
        EXPECT_EQ(end.updates, kUpdates);
        EXPECT_NE(end.model_hash, 0U);
        EXPECT_EQ(end.model_hash, (watcher.ends[{first, {s}}].model_hash));
      }
    }
    return ended;
  }

  Recipe recipe = common_recipe();
  Places places;

  Tokens tokens_{4001};
  MeshData data_ = {.train = tokens_.file(), .valid = &tokens_.file(), .vocabulary = kVocabulary};
};

TEST_F(CommonModels, AreTheSameOnThreads) {
  threads::Threads driver(1);
  EXPECT_EQ(run(driver).differed, 0);
}

TEST_F(CommonModels, AreTheSameWhereMessagesAreLostDoubledAndLate) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    sim::SimulationOptions faulty = trio_machines(/*seed=*/1);
    faulty.messages = {.seed = seed, .twice = 0.1, .lost = 0.05, .class_jitter = {2000}};
    sim::Simulation driver(faulty);
    const Ended ended = run(driver);
    EXPECT_EQ(ended.differed, 0);
    EXPECT_GT(ended.repeats, 0) << "lost answers are asked for";
  }
}

TEST_F(CommonModels, AreTheSameWhereOneIsSlow) {
  sim::SimulationOptions uneven = trio_machines(/*seed=*/1);
  for (int64_t s = 0; s < kStages; ++s) {
    sim::StageCosts& costs = uneven.costs[kMesh.index({{1}, {s}})];
    costs = sim::at_speed(costs, 0.5);
  }
  sim::Simulation driver(uneven);
  EXPECT_EQ(run(driver).differed, 0);
}

// An owner that is lost has answered some and not others; it owns a chunk again when it is back.
TEST_F(CommonModels, AreTheSameWhereAReplicaIsLostAndBack) {
  const std::vector<PlannedFault> planned = {
      {.kind = PlannedFault::Kind::kLose, .replica = {1}, .update = 15},
      {.kind = PlannedFault::Kind::kReturn, .replica = {1}, .update = 30}};
  threads::Threads threads(1, planned);
  EXPECT_EQ(run(threads).differed, 0);
  sim::SimulationOptions story = trio_machines(/*seed=*/1);
  story.planned = planned;
  sim::Simulation simulation(story);
  const Ended ended = run(simulation);
  EXPECT_EQ(ended.differed, 0);
  EXPECT_EQ(ended.left, ReplicaSet::first(kReplicas));
}

// The other stage of its replica stays: it has the model as it was, and applies nothing twice.
TEST_F(CommonModels, AreTheSameWhereOneStageIsReplaced) {
  for (int64_t stage = 0; stage < kStages; ++stage) {
    SCOPED_TRACE(stage);
    sim::SimulationOptions story = trio_machines(/*seed=*/1);
    story.departures = {{.worker = {{1}, {stage}}, .at = kFault.begin}};
    story.returns = {{.worker = {{1}, {stage}}, .at = kFault.end}};
    sim::Simulation driver(story);
    const Ended ended = run(driver);
    EXPECT_EQ(ended.differed, 0);
    EXPECT_EQ(ended.left, ReplicaSet::first(kReplicas));
  }
}

// It took the whole chunk, because nobody kept what it lacked. A replay loses nothing, and takes
// the chunk all the same.
TEST_F(CommonModels, AreRepeatedWhereOneWasFarBehind) {
  recipe.run.updates = 150;
  sim::SimulationOptions story = trio_machines(/*seed=*/1);
  for (int64_t s = 0; s < kStages; ++s) {
    const auto cut = sim::cut_off(kMesh, {{1}, {s}}, {{20'000}, {130'000}});
    story.outages.insert(story.outages.end(), cut.begin(), cut.end());
  }
  const RunPlan plan = make_plan(recipe, data_);
  const Workers workers = make_workers(recipe, data_, plan);
  sim::Simulation driver(story);
  Watcher watcher({});
  watcher.in_order = true;
  ASSERT_TRUE(driver.run(workers, watcher).ok());
  const auto takes = std::ranges::count(watcher.records, true,
                                        [](const WorkRecord& record) { return record.work.whole; });
  EXPECT_GT(takes, 0);
  const RunPlan repeats = as_replay(plan, recipe.run.updates);
  const Workers again = make_workers(recipe, data_, repeats);
  Watcher repeated({});
  const Status status = sim::replay(again, watcher.records, repeated);
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_same_weights(workers, again);
}

// A bit of one copy flips, as it may in memory: it is found, and that copy is taken anew.
TEST_F(CommonModels, AreMendedWhereOneHasChanged) {
  sim::Simulation driver(trio_machines(/*seed=*/1));
  const Ended ended = run(driver, [&](const StageUpdate& update) {
    const bool now = update.worker == WorkerId{{1}, {0}} && update.update == 20;
    if (now)
      places[kMesh.index(update.worker)]->compute()->averaging().common_model()[7].add_(1e-3);
  });
  EXPECT_GT(ended.differed, 0);
}

}  // namespace
}  // namespace leeway
