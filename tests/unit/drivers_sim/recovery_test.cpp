// Replicas that come back: what the others pay for it, where they go on, and a swarm of crashes,
// returns, slow disks, lost messages and coordinators that are started again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "round_plans.h"

namespace leeway::sim {
namespace {

constexpr Nanos kDeadline = {10'000'000};

WorkerMaker maker_of(const RunPlan& plan) {
  return [&plan](WorkerId id, const Entry& entry) {
    return std::make_unique<Worker>(id, plan, nullptr, entry);
  };
}

// Remembers the newest state of each worker.
class Disk final : public ShardStore {
 public:
  Result<Stored> store(const StageState& state) override {
    newest_[state.worker] = std::make_shared<const StageState>(state);
    return Stored{.file = "shard", .size = 1, .hash = static_cast<uint64_t>(state.update)};
  }
  std::shared_ptr<const StageState> newest_of(WorkerId worker) override {
    const auto found = newest_.find(worker);
    return found == newest_.end() ? nullptr : found->second;
  }

 private:
  std::map<WorkerId, std::shared_ptr<const StageState>> newest_;
};

class Witness final : public Recorder {
 public:
  explicit Witness(const RunPlan& plan) : table_(plan.replicas) {}
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    records.push_back(record);
    if (record.work.kind == WorkKind::kUpdate) {
      made_[record.worker] = record.work.update;
      newest_ = std::max(newest_, record.work.update);
    }
    if (records.size() == stop_after) ask_(Ask::kStop);
    if (records.size() == save_after) ask_(Ask::kSave);
  }
  void predicted(const Prediction&) override {}
  void members(const Membership& table) override {
    // A coordinator that begins again learns what the workers have heard of, which may be an older
    // one; but a number means one table.
    EXPECT_EQ(by_number_.try_emplace(table.number(), table).first->second, table);
    table_ = table;
    tables.push_back(table);
  }
  int64_t newest_table() const override {
    return by_number_.empty() ? 0 : by_number_.rbegin()->first;
  }
  int64_t newest_update() const override { return newest_; }
  void regroups(bool yes) override { regroup = yes; }
  void updated(const StageUpdate&) override {}
  void evaluated(const StageEvaluation&) override {}
  void saved(const ShardSaved& saved) override {
    const bool known =
        saved.update <= std::max(made_[saved.worker], table_.restart(saved.worker.replica).update);
    EXPECT_TRUE(known) << "saved before it was made";
  }
  void finished(WorkerId worker, const leeway::Finished& finished) override {
    if (!table_.has(worker.replica)) return;
    const int64_t begun = table_.restart(worker.replica).update;
    EXPECT_EQ(finished.updates, std::max(made_[worker], begun)) << "not what was made";
  }

  std::vector<WorkRecord> of(WorkerId worker, WorkKind kind) const {
    std::vector<WorkRecord> found;
    for (const WorkRecord& record : records) {
      if (record.worker == worker && record.work.kind == kind) found.push_back(record);
    }
    return found;
  }
  const Membership& table() const { return table_; }

  std::vector<WorkRecord> records;
  std::vector<Membership> tables;
  bool regroup = false;
  size_t stop_after = SIZE_MAX;
  size_t save_after = SIZE_MAX;

 private:
  Membership table_;
  int64_t newest_ = 0;  // update of anybody
  std::map<int64_t, Membership> by_number_;
  std::map<WorkerId, int64_t> made_;
  AskRun ask_;
};

// Three replicas of two stages; sparse rounds in cycles of five, merged on arrival.
struct Trio {
  explicit Trio(int64_t updates, Method method = Method::kSparse, std::optional<int64_t> lag = {})
      : plan(plan_of({.stages = 2}, updates)) {
    plan.checkpoint_every = 20;
    plan.evaluate_every = 10;
    plan.evaluation_batches = 2;
    plan.state_bytes = 8 * kStatePartBytes;
    plan.join_bytes_per_second = 200e6;
    add_lanes({.method = method, .replicas = 3, .lag = lag, .deadline = kDeadline}, plan);
    const StageCosts costs = {.forward = kMillisecond,
                              .backward = 2 * kMillisecond,
                              .update = 100 * kMicrosecond,
                              .round = 50 * kMicrosecond};
    options = {.costs = std::vector<StageCosts>(6, costs),
               .links = {.seed = 3,
                         .all = {.latency = 300 * kMicrosecond,
                                 .bytes_per_second = 1e9,
                                 .jitter = 200 * kMicrosecond}},
               .notice = 5 * kMillisecond};
  }
  void lose(int64_t replica, Nanos from, Nanos to, bool with_disk = false) {
    for (int64_t s = 0; s < 2; ++s) {
      const WorkerId worker = {.replica = {replica}, .stage = {s}};
      options.departures.push_back({.worker = worker, .at = from});
      options.returns.push_back({.worker = worker, .at = to, .with_disk = with_disk});
    }
  }
  Witness run() {
    const IdleWorkers workers = make_mesh(plan);
    Simulation simulation(options);
    simulation.fill_places(maker_of(plan));
    Witness witness(plan);
    Disk disk;
    EXPECT_TRUE(simulation.run(workers, witness, &disk).ok());
    return witness;
  }

  RunPlan plan;
  SimulationOptions options;
};

int64_t updates_of(const Witness& witness, int64_t replica) {
  const auto updates = witness.of({{replica}, {0}}, WorkKind::kUpdate);
  return updates.empty() ? 0 : updates.back().work.update;
}

TEST(Recovery, AReplicaWithoutItsDiskGoesOnWithTheFleet) {
  Trio trio(300);
  trio.lose(1, 200 * kMillisecond, 500 * kMillisecond);
  const Witness witness = trio.run();
  ASSERT_EQ(witness.tables.size(), 2U) << "it left, and it came back";
  const Membership::Restart restart = witness.tables.back().restart({1});
  EXPECT_EQ(restart.epoch, 2) << "the number of the table";
  EXPECT_EQ(witness.tables.back().incarnation({{1}, {0}}), 1);
  EXPECT_GT(restart.update, 100) << "the fleet was there by then";
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(updates_of(witness, r), 300);
  const auto updates = witness.of({{1}, {0}}, WorkKind::kUpdate);
  const auto back = std::ranges::find(updates, restart.update + 1,
                                      [](const WorkRecord& record) { return record.work.update; });
  ASSERT_NE(back, updates.end());
  EXPECT_LT(std::prev(back)->work.update, restart.update) << "nothing in between was made";
  EXPECT_FALSE(witness.of({{0}, {0}}, WorkKind::kTransfer).empty()) << "replica 0 gave its state";
  // It follows for a cycle, and then counts in almost every mean.
  int64_t counted = 0;
  for (const WorkRecord& record : witness.records) {
    const bool after = record.times.begin > back->times.end && record.work.lane == Lane::kMain;
    counted += after && record.work.kind == WorkKind::kReduce && record.work.replicas.contains({1});
  }
  EXPECT_GT(counted, 2 * 2 * 100);
}

TEST(Recovery, AReplicaWithItsDiskNeedsNobodysState) {
  Trio trio(200);
  trio.lose(2, 200 * kMillisecond, 206 * kMillisecond, /*with_disk=*/true);
  const Witness witness = trio.run();
  EXPECT_EQ(witness.table().epoch({2}), 2);
  EXPECT_EQ(updates_of(witness, 2), 200);
  for (int64_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(witness.of({{0}, {s}}, WorkKind::kTransfer).empty());
  }
}

TEST(Recovery, AStateOnDiskThatIsOldIsNotUsed) {
  Trio trio(300);
  trio.lose(2, 200 * kMillisecond, 600 * kMillisecond, /*with_disk=*/true);
  EXPECT_FALSE(trio.run().of({{0}, {0}}, WorkKind::kTransfer).empty());
}

TEST(Recovery, StagesThatSurviveKeepTheirState) {
  Trio trio(200);
  const WorkerId lost = {.replica = {0}, .stage = {1}};
  trio.options.departures = {{.worker = lost, .at = 200 * kMillisecond}};
  trio.options.returns = {{.worker = lost, .at = 250 * kMillisecond}};
  const Witness witness = trio.run();
  EXPECT_EQ(witness.table().epoch({0}), 2);
  EXPECT_EQ(witness.table().incarnation({{0}, {0}}), 0);
  EXPECT_EQ(witness.table().incarnation(lost), 1);
  EXPECT_EQ(witness.table().senior(), ReplicaId{1}) << "it evaluates from now on";
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(updates_of(witness, r), 200);
  EXPECT_TRUE(witness.of({{1}, {0}}, WorkKind::kTransfer).empty());
  EXPECT_FALSE(witness.of({{1}, {1}}, WorkKind::kTransfer).empty());
}

// Before anybody has noticed that it was gone.
TEST(Recovery, AWorkerThatIsReplacedAtOnceRestartsItsReplica) {
  Trio trio(200);
  trio.options.notice = 10'000 * kMillisecond;
  trio.lose(1, 200 * kMillisecond, 201 * kMillisecond);
  const Witness witness = trio.run();
  EXPECT_EQ(witness.table().epoch({1}), 2);
  EXPECT_EQ(updates_of(witness, 1), 200);
}

TEST(Recovery, AReplicaComesBackAgainAndAgain) {
  Trio trio(400);
  for (int64_t i = 0; i < 4; ++i) {
    trio.lose(1 + i % 2, (200 + i * 200) * kMillisecond, (250 + i * 200) * kMillisecond);
  }
  const Witness witness = trio.run();
  EXPECT_EQ(witness.table().number(), 8);
  EXPECT_EQ(witness.table().incarnation({{1}, {0}}), 2);
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(updates_of(witness, r), 400);
}

// A donor that leaves while it gives its state: another one gives its own.
TEST(Recovery, TheDonorMayLeave) {
  Trio trio(300);
  trio.plan.state_bytes = 40 * kStatePartBytes;  // 200 ms
  trio.lose(1, 200 * kMillisecond, 300 * kMillisecond);
  trio.lose(0, 350 * kMillisecond, 600 * kMillisecond);
  const Witness witness = trio.run();
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(updates_of(witness, r), 300);
  EXPECT_FALSE(witness.of({{2}, {0}}, WorkKind::kTransfer).empty());
}

// A joiner costs the others at most 5 % of their speed while it loads, though it loads all the
// time.
TEST(Recovery, AJoinerCostsTheOthersLittle) {
  const auto time_of = [](const Witness& witness, int64_t replica) {
    Nanos from, to;
    for (const WorkRecord& record : witness.of({{replica}, {0}}, WorkKind::kUpdate)) {
      if (record.work.update == 60) from = record.times.end;
      if (record.work.update == 180) to = record.times.end;
    }
    return (to - from).seconds();
  };
  Trio healthy(200);
  Trio loading(200);
  for (Trio* trio : {&healthy, &loading}) {
    trio->options.departures = departures_of({.stages = 2, .replicas = 3}, {1}, 50 * kMillisecond);
  }
  loading.plan.state_bytes = 1000 * kStatePartBytes;  // more than fits into the run
  loading.lose(1, 50 * kMillisecond, 60 * kMillisecond);
  const Witness without = healthy.run();
  const Witness with = loading.run();
  EXPECT_GT(with.of({{0}, {0}}, WorkKind::kTransfer).size(), 50U);
  for (const int64_t replica : {0, 2}) {
    EXPECT_LE(time_of(with, replica), 1.05 * time_of(without, replica)) << replica;
  }
}

// Replicas that wait for each other must be the same: they begin a new session together.
TEST(Recovery, WithAFixedLagTheSessionEndsForOneThatIsBack) {
  for (const Method method : {Method::kSparse, Method::kLowbit, Method::kAllreduce}) {
    const bool lowbit = method == Method::kLowbit;
    Trio trio(300, method, lowbit ? std::nullopt : std::optional<int64_t>(1));
    trio.lose(1, 200 * kMillisecond, 400 * kMillisecond);
    const Witness witness = trio.run();
    EXPECT_TRUE(witness.regroup);
    EXPECT_FALSE(witness.table().has({1}));
    EXPECT_LT(updates_of(witness, 0), 250);
    EXPECT_EQ(updates_of(witness, 0), lowbit ? updates_of(witness, 0) : updates_of(witness, 2));
    for (const int64_t r : {0, 2}) {
      const auto saves = witness.of({{r}, {0}}, WorkKind::kSave);
      EXPECT_EQ(saves.back().work.update, updates_of(witness, r)) << "all is saved";
    }
  }
}

TEST(Recovery, WhoeverIsBackWhenTheRunIsNearlyOverIsNotWaitedFor) {
  Trio trio(100);
  trio.plan.state_bytes = 100'000 * kStatePartBytes;
  trio.lose(1, 200 * kMillisecond, 250 * kMillisecond);
  const Witness witness = trio.run();
  EXPECT_FALSE(witness.table().has({1}));
  for (const int64_t r : {0, 2}) EXPECT_EQ(updates_of(witness, r), 100);
}

struct Scenario {
  RunPlan plan;
  SimulationOptions options;
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

Scenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.plan = random_pipeline(dice, dice.one_in(10) ? dice(400, 1200) : dice(40, 150));
  RunPlan& plan = scenario.plan;
  const std::array<Method, 4> methods = {Method::kNone, Method::kSparse, Method::kSparse,
                                         Method::kDiloco};
  const bool regroups = dice.one_in(5);
  add_lanes({.method = regroups ? static_cast<Method>(dice(0, kMethods - 1))
                                : methods[static_cast<size_t>(dice(0, 3))],
             .replicas = dice(2, 4),
             .cycle = dice(1, 10),
             .lag = regroups ? std::optional(dice(0, 3)) : std::nullopt,
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
  return scenario;
}

uint64_t run(const Scenario& scenario) {
  const RunPlan& plan = scenario.plan;
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(scenario.options);
  simulation.fill_places(maker_of(plan));
  Witness witness(plan);
  witness.stop_after = scenario.stop_after;
  witness.save_after = scenario.save_after;
  Disk disk;
  EXPECT_TRUE(simulation.run(workers, witness, &disk).ok());
  // Who is there at the end has done the whole run.
  if (scenario.stop_after == SIZE_MAX && !witness.regroup) {
    for (const ReplicaId replica : witness.table().members()) {
      EXPECT_EQ(updates_of(witness, replica.value), plan.last_update);
    }
  }
  return simulation.digest();
}

TEST(RecoverySwarm, TheRunEnds) {
  run_swarm_of_digests({.seeds = 200, .share = 0.4},
                       [](uint64_t seed) { return run(random_scenario(seed)); });
}

}  // namespace
}  // namespace leeway::sim
