// Workers and coordinators that are lost and replaced, under drivers that can fill a place: the
// same stories in real time and in virtual time. The workers compute nothing.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "../support/memory_store.h"
#include "../support/mesh_without_compute.h"
#include "base/rng.h"
#include "drivers/sim/simulation.h"
#include "drivers/threads/threads.h"

namespace leeway {
namespace {

using Kind = PlannedFault::Kind;
constexpr int64_t kUpdates = 2000;

// Asserts that each worker's updates follow each other, except where a table restarts it.
class Witness final : public Recorder {
 public:
  explicit Witness(size_t stop_after = SIZE_MAX) : stop_after_(stop_after) {}
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    transfers += record.work.kind == WorkKind::kTransfer ? 1 : 0;
    if (record.work.kind != WorkKind::kUpdate) return;
    int64_t& made = made_[record.worker];
    const int64_t restart = table_.restart(record.worker.replica).update;
    const bool restarted = record.work.update == restart + 1 && made < restart;
    EXPECT_TRUE(record.work.update == made + 1 || restarted) << record.work.update;
    made = record.work.update;
    if (++updates_ == stop_after_) ask_(Ask::kStop);
  }
  void predicted(const Prediction&) override {}
  void updated(const StageUpdate&) override {}
  void evaluated(const StageEvaluation&) override {}
  void members(const Membership& table) override {
    table_ = table;
    newest_table_ = std::max(newest_table_, table.number());
  }
  int64_t newest_table() const override { return newest_table_; }
  void finished(WorkerId worker, const Finished& finished) override {
    finished_[worker] = finished.updates;
  }

  const Membership& table() const { return table_; }
  int64_t made(WorkerId worker) const { return made_.at(worker); }
  int64_t finished(WorkerId worker) const { return finished_.at(worker); }
  int64_t transfers = 0;

 private:
  Membership table_{3};
  int64_t newest_table_ = 0;
  std::map<WorkerId, int64_t> made_;
  std::map<WorkerId, int64_t> finished_;
  size_t updates_ = 0;
  size_t stop_after_;
  AskRun ask_;
};

// Three replicas of two stages that average a fifth of the coordinates at a time, on arrival.
RunPlan trio(int64_t updates = kUpdates) {
  RunPlan plan = with_replicas(plan_of({.stages = 2}, updates), 3);
  plan.checkpoint_every = 50;
  plan.evaluate_every = 40;
  plan.evaluation_batches = 2;
  plan.state_bytes = 1000;
  LanePlan lane = {.replicas = 3, .deadline = Nanos{200'000}};
  lane.sizes.assign(2, {.cut = {.parameters = 2000}});
  plan.evaluation = lane;
  plan.evaluation.lane = Lane::kEvaluation;
  lane.cycle = 5;
  plan.lanes = {lane};
  return plan;
}

using DriverCase = std::pair<std::string, std::unique_ptr<Driver> (*)(std::vector<PlannedFault>)>;

std::unique_ptr<Driver> make_threads(std::vector<PlannedFault> planned) {
  return std::make_unique<threads::Threads>(1, std::move(planned));
}

std::unique_ptr<Driver> make_simulation(std::vector<PlannedFault> planned) {
  return std::make_unique<sim::Simulation>(sim::SimulationOptions{
      .costs = {{.forward = {10'000}, .backward = {20'000}, .update = {3000}},
                {.forward = {11'000}, .backward = {19'000}, .update = {3000}}},
      .links = {.seed = 1, .all = {.latency = {5000}, .jitter = {4000}}},
      .notice = {500'000},
      .planned = std::move(planned)});
}

class Stories : public testing::TestWithParam<DriverCase> {
 protected:
  static void run(const RunPlan& plan, std::vector<PlannedFault> planned, Witness& witness) {
    const Workers workers = make_mesh(plan);
    const std::unique_ptr<Driver> driver = GetParam().second(std::move(planned));
    driver->fill_places(maker_of(plan));
    MemoryStore disk;
    ASSERT_TRUE(driver->run(workers, witness, &disk).ok());
  }
};

TEST_P(Stories, OneIsLostAndBackAnotherLeavesAndTheCoordinatorIsReplaced) {
  Witness witness;
  // A thread may be held up while the others make thousands of updates without arithmetic.
  constexpr int64_t kMany = 4 * kUpdates;
  run(trio(kMany),
      {{.kind = Kind::kLose, .replica = {1}, .update = 100},
       {.kind = Kind::kReturn, .replica = {1}, .update = 200},
       {.kind = Kind::kLeave, .replica = {2}, .update = kMany - 4000},
       {.kind = Kind::kCoordinatorLost, .update = kMany - 3000}},
      witness);
  EXPECT_EQ(witness.table().members(), ReplicaSet::first(2));
  EXPECT_EQ(witness.table().number(), 3);
  EXPECT_EQ(witness.table().incarnation({{1}, {1}}), 1);
  EXPECT_GE(witness.table().restart({1}).update, 200);
  EXPECT_GT(witness.transfers, 0) << "it came without its disk";
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t s = 0; s < 2; ++s) EXPECT_EQ(witness.finished({{r}, {s}}), kMany);
  }
  EXPECT_LT(witness.made({{2}, {0}}), kMany);
}

// Nobody fills the place: the others end without it. And nobody is left at all.
TEST_P(Stories, TheRunEndsWithoutThoseThatAreGone) {
  Witness witness;
  run(trio(), {{.kind = Kind::kLose, .replica = {0}, .update = 100}}, witness);
  EXPECT_EQ(witness.finished({{2}, {1}}), kUpdates);
  Witness nobody;
  run(trio(),
      {{.kind = Kind::kLose, .replica = {0}, .update = 30},
       {.kind = Kind::kLose, .replica = {1}, .update = 30},
       {.kind = Kind::kLose, .replica = {2}, .update = 30}},
      nobody);
  EXPECT_TRUE(nobody.table().members().empty());
}

// Losses and returns of any replica, at any time, with and without a disk, beside coordinators that
// are replaced and a user who wants to stop. Under threads a seed is a story, and the moment within
// an update is chance.
TEST_P(Stories, TheRunEndsWhateverIsLost) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    uint64_t rolls = 0;
    const auto dice = [&](int64_t faces) {
      const double share = random_uniform({.seed = seed, .stream = Stream::kJitter}, rolls++);
      return static_cast<int64_t>(share * static_cast<double>(faces));
    };
    std::vector<PlannedFault> planned;
    std::map<int64_t, bool> away;
    for (int64_t update = 1 + dice(300); update < kUpdates; update += 1 + dice(600)) {
      const int64_t replica = dice(4);
      if (replica == 3) {
        planned.push_back({.kind = Kind::kCoordinatorLost, .update = update});
      } else if (std::exchange(away[replica], !away[replica])) {
        planned.push_back({.kind = Kind::kReturn,
                           .replica = {replica},
                           .update = update,
                           .with_disk = dice(2) == 0});
      } else {
        planned.push_back({.kind = Kind::kLose, .replica = {replica}, .update = update});
      }
    }
    Witness witness(dice(3) == 0 ? static_cast<size_t>(1 + dice(6 * kUpdates)) : SIZE_MAX);
    run(trio(), planned, witness);
    for (const ReplicaId replica : witness.table().members()) {
      const int64_t made = witness.made({replica, {0}});
      EXPECT_EQ(witness.made({replica, {1}}), made) << "a replica ends whole";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, Stories,
                         testing::Values(DriverCase{"threads", make_threads},
                                         DriverCase{"sim", make_simulation}),
                         [](const auto& driver) { return driver.param.first; });

}  // namespace
}  // namespace leeway
