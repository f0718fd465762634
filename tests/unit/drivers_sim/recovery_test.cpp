// Replicas that come back: what the others pay for it, and where they go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "recovery_testing.h"

namespace leeway::sim {
namespace {

constexpr Nanos kDeadline = {10'000'000};

// Three replicas of two stages; sparse rounds in cycles of five, merged on arrival.
struct Trio {
  explicit Trio(int64_t updates, Method method = Method::kSparse, std::optional<int64_t> lag = {})
      : plan(plan_of({.stages = 2}, updates)) {
    plan.checkpoint_every = 20;
    plan.evaluate_every = 10;
    plan.evaluation_batches = 2;
    plan.state_bytes = 8 * kStatePartBytes;
    plan.join_bytes_per_second = 200e6;
    add_lanes({.method = method, .replicas = 3, .lag_backwards = lag, .deadline = kDeadline}, plan);
    const StageCosts costs = {.forward = kMillisecond,
                              .backward = 2 * kMillisecond,
                              .update = 100 * kMicrosecond,
                              .rounds = RoundCosts::each(50 * kMicrosecond)};
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
    Disk disk(disk_options, simulation.clock());
    Witness witness(plan, disk);
    EXPECT_TRUE(simulation.run(workers, witness, &disk).ok());
    return witness;
  }

  RunPlan plan;
  SimulationOptions options;
  DiskOptions disk_options;
};

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

// Every move of a chunk writes off what its owner has yet to say: those of the others stay.
TEST(Recovery, OfACommonModelOnlyTheLostReplicasChunkMoves) {
  Trio trio(300, Method::kLowbit);
  trio.options.departures = departures_of({.stages = 2, .replicas = 3}, {1}, 200 * kMillisecond);
  const Witness witness = trio.run();
  std::map<int64_t, std::vector<int64_t>> owners;  // by chunk of stage 0, one after the other
  for (const WorkRecord& record : witness.records) {
    const Work& work = record.work;
    const bool reduces = work.kind == WorkKind::kReduce && work.lane == Lane::kMain;
    if (!reduces || record.worker.stage.value != 0) continue;
    std::vector<int64_t>& of_chunk = owners[work.chunk];
    const int64_t owner = record.worker.replica.value;
    if (of_chunk.empty() || of_chunk.back() != owner) of_chunk.push_back(owner);
  }
  EXPECT_EQ(owners, (std::map<int64_t, std::vector<int64_t>>{{0, {0}}, {1, {1, 2}}, {2, {2}}}));
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

// Such as one that was not written to the end: the others have the state.
TEST(Recovery, AStateOnDiskThatCannotBeReadIsNotUsed) {
  Trio trio(200);
  trio.lose(2, 200 * kMillisecond, 206 * kMillisecond, /*with_disk=*/true);
  trio.disk_options.torn_one_in = 1;
  const Witness witness = trio.run();
  EXPECT_EQ(updates_of(witness, 2), 200);
  EXPECT_FALSE(witness.of({{0}, {0}}, WorkKind::kTransfer).empty());
}

TEST(Recovery, ADiskThatIsFullDelaysNobodyButTheEnd) {
  Trio trio(200);
  trio.lose(2, 200 * kMillisecond, 206 * kMillisecond, /*with_disk=*/true);
  trio.disk_options = {.full = {{{0}, 5000 * kMillisecond}}, .patient = true};
  const Witness witness = trio.run();
  for (int64_t r = 0; r < 3; ++r) {
    const auto updates = witness.of({{r}, {0}}, WorkKind::kUpdate);
    EXPECT_EQ(updates.back().work.update, 200);
    EXPECT_LT(updates.back().times.end, 1000 * kMillisecond);
    EXPECT_EQ(witness.checkpoint_of({r}), 200) << "when there was room";
  }
  EXPECT_FALSE(witness.of({{0}, {0}}, WorkKind::kTransfer).empty()) << "there was nothing on it";
}

TEST(Recovery, AReplicaComesBackAfterAThousandUpdates) {
  Trio trio(1200);
  using Kind = PlannedFault::Kind;
  trio.options.planned = {{.kind = Kind::kLose, .replica = {1}, .update = 100},
                          {.kind = Kind::kReturn, .replica = {1}, .update = 1100}};
  const Witness witness = trio.run();
  EXPECT_GE(witness.table().restart({1}).update, 1100);
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(updates_of(witness, r), 1200);
  EXPECT_LT(witness.of({{1}, {0}}, WorkKind::kUpdate).size(), 220U) << "it made no others";
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

// Whoever left stays out of account, though the coordinator that knew it is gone.
TEST(Recovery, TheCoordinatorMayBeLostAsTheRunEnds) {
  Trio trio(60);
  trio.plan.state_bytes = 100'000 * kStatePartBytes;  // it is never done
  trio.options.departures = {{.worker = {{1}, {1}}, .at = 50 * kMillisecond}};
  trio.options.returns = {{.worker = {{1}, {1}}, .at = 60 * kMillisecond}};
  trio.options.messages = {.seed = 1, .class_jitter = 5 * kMillisecond};
  const Nanos end = trio.run().records.back().times.end;
  for (int64_t after = 0; after < 20; ++after) {
    const Nanos begin = end + after * 500 * kMicrosecond;
    trio.options.coordinator_outages = {{begin, begin + 100 * kMillisecond}};
    const Witness witness = trio.run();
    for (const int64_t r : {0, 2}) EXPECT_EQ(updates_of(witness, r), 60);
  }
}

// Nobody may have heard of the new one when all are told that it is over.
TEST(Recovery, AWorkerMayBeReplacedAsTheRunEnds) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Trio trio(20);
    trio.options.messages = {.seed = seed, .lost = 0.1};
    trio.options.departures = {{.worker = {{2}, {1}}, .at = 20 * kMillisecond}};
    const Nanos lost = trio.run().records.back().times.end + 500 * kMillisecond;
    trio.options.departures.push_back({.worker = {{1}, {0}}, .at = lost});
    trio.options.returns = {{.worker = {{1}, {0}}, .at = lost + kMillisecond}};
    const Witness witness = trio.run();
    for (const int64_t r : {0, 1}) EXPECT_EQ(updates_of(witness, r), 20);
  }
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

// With a common model one that is back has it, and counts at once; an owner that was lost has
// another in its place meanwhile. The checker sees that all apply the same answers.
TEST(Recovery, OneThatIsBackTakesTheCommonModel) {
  for (const int64_t lost : {0, 1, 2}) {
    Trio trio(400, Method::kLowbit, std::nullopt);
    trio.lose(lost, 200 * kMillisecond, 400 * kMillisecond);
    const Witness witness = trio.run();
    EXPECT_FALSE(witness.regroup);
    EXPECT_TRUE(witness.table().has({lost}));
    EXPECT_EQ(updates_of(witness, lost), 400);
    const auto merges = witness.of({{lost}, {0}}, WorkKind::kMerge);
    const auto reduces = witness.of({{lost}, {0}}, WorkKind::kReduce);
    ASSERT_FALSE(merges.empty() || reduces.empty());
    EXPECT_GT(merges.back().times.end, 400 * kMillisecond);
    EXPECT_GT(reduces.back().times.end, 400 * kMillisecond) << "it owns a chunk again";
  }
}

// It has so much under way by then that it sends no more, and none of that ever arrived.
TEST(Recovery, OneWhoseLinkToAnOwnerWasDownCountsAgain) {
  Trio trio(400, Method::kLowbit);
  const Window down = {200 * kMillisecond, 600 * kMillisecond};
  for (int64_t s = 0; s < 2; ++s) {
    const WorkerId owner = {{0}, {s}};
    const WorkerId cut = {{1}, {s}};
    trio.options.outages.push_back({owner, cut, down});
    trio.options.outages.push_back({cut, owner, down});
  }
  const Witness witness = trio.run();
  for (int64_t s = 0; s < 2; ++s) {
    int64_t during = 0, after = 0;
    for (const WorkRecord& record : witness.of({{0}, {s}}, WorkKind::kReduce)) {
      const bool counts = record.work.lane == Lane::kMain && record.work.replicas.contains({1});
      const Nanos at = record.times.begin;
      during += counts && at > down.begin + 10 * kMillisecond && at < down.end;
      after += counts && at > down.end + 100 * kMillisecond && record.work.update < 400;
    }
    EXPECT_EQ(during, 0) << "stage " << s;
    EXPECT_GT(after, 50) << "stage " << s << ": but for a wait of a few updates";
  }
}

// Replicas that wait for each other must be the same: they begin a new session together.
TEST(Recovery, WithAFixedLagTheSessionEndsForOneThatIsBack) {
  for (const Method method : {Method::kSparse, Method::kLowbit, Method::kAllreduce}) {
    Trio trio(300, method, /*lag=*/1);
    trio.lose(1, 200 * kMillisecond, 400 * kMillisecond);
    const Witness witness = trio.run();
    EXPECT_TRUE(witness.regroup);
    EXPECT_FALSE(witness.table().has({1}));
    EXPECT_LT(updates_of(witness, 0), 250);
    EXPECT_EQ(updates_of(witness, 0), updates_of(witness, 2));
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

}  // namespace
}  // namespace leeway::sim
