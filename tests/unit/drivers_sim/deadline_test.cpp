// Deadlines that follow time: updates that take seconds, replicas that drift apart, replicas that
// leave. Rounds average whoever is there, and do not wait again and again for those who are not.
#include <gtest/gtest.h>

#include <algorithm>

#include "round_plans.h"

namespace leeway::sim {
namespace {

constexpr Nanos kSecond = {1'000'000'000};
constexpr int64_t kReplicas = 4;
constexpr Mesh kMesh = {.stages = 2, .replicas = kReplicas};

// Updates of 4.5 s on links with 600 ms of jitter.
struct SlowFleet {
  explicit SlowFleet(bool follows, Method method = Method::kSparse)
      : plan(plan_of({.stages = 2, .update_every = 2}, 150)) {
    add_lanes({.method = method, .replicas = kReplicas, .deadline = kSecond, .follows = follows},
              plan);
    const StageCosts costs = {.forward = 600 * kMillisecond,
                              .backward = 1200 * kMillisecond,
                              .update = 300 * kMillisecond};
    options.costs.assign(kMesh.count(), costs);
    options.links = {.seed = 7,
                     .all = {.latency = 50 * kMillisecond, .jitter = 600 * kMillisecond}};
  }
  RunPlan plan;
  SimulationOptions options;
};

// Means of the main lane, by the number of their contributors.
std::vector<int64_t> means_of(const Notebook& recorder) {
  std::vector<int64_t> means(kReplicas + 1, 0);
  for (const WorkRecord& record : recorder.records()) {
    const Work& work = record.work;
    if (work.kind == WorkKind::kReduce && work.lane == Lane::kMain)
      ++means[static_cast<size_t>(work.replicas.size())];
  }
  return means;
}
int64_t count(const std::vector<int64_t>& means) {
  int64_t all = 0;
  for (const int64_t some : means) all += some;
  return all;
}

TEST(Deadlines, SlowUpdatesAreAveragedOverAllReplicas) {
  for (const Method method : {Method::kSparse, Method::kLowbit}) {
    const SlowFleet fleet(/*follows=*/true, method);
    const Finished run(fleet.plan, fleet.options, kReplicas);
    const double update = run.simulation.span().end.seconds() / 150;
    EXPECT_NEAR(update, 4.5, 0.3);
    const std::vector<int64_t> means = means_of(run.recorder);
    EXPECT_GE(means[kReplicas], count(means) * 98 / 100);
    // Who ends last has the last word on what is left.
    EXPECT_LE(means[1], method == Method::kLowbit ? count(means) / 50 : 0);
  }
  const SlowFleet fleet(/*follows=*/false);
  const Finished run(fleet.plan, fleet.options, kReplicas);
  const std::vector<int64_t> means = means_of(run.recorder);
  EXPECT_LT(means[kReplicas], count(means) / 2) << "what a fixed second makes of it";
}

// Whatever speeds replicas have, each counts about as often as it updates.
TEST(Deadlines, ASlowReplicaCountsAndDelaysNoMeanForLong) {
  for (const double speed : {0.7, 0.25, 0.05}) {
    SlowFleet fleet(/*follows=*/true);
    for (const size_t worker : {2U, 3U}) {
      fleet.options.costs[worker] = at_speed(fleet.options.costs[worker], speed);
    }
    const Finished run(fleet.plan, fleet.options, kReplicas);
    const Nanos end = run.recorder.of({{0}, {0}}, WorkKind::kUpdate).back().times.end;
    int64_t updates = 0, counted = 0, lag = 0;
    for (const WorkRecord& record : run.recorder.records()) {
      if (record.times.end > end || record.worker.stage.value != 0) continue;
      const Work& work = record.work;
      if (work.kind == WorkKind::kUpdate && record.worker.replica.value == 1) ++updates;
      if (work.lane != Lane::kMain) continue;
      if (work.kind == WorkKind::kReduce && work.replicas.contains({1})) ++counted;
      // An owner that is busy for many of the others' updates answers late, whatever its deadline.
      const bool of_others =
          record.worker.replica.value != 1 &&
          fleet.plan.lanes[0].owner(work.index, work.chunk, Membership(kReplicas)).value != 1;
      if (work.kind == WorkKind::kMerge && of_others) lag = std::max(lag, work.delay);
    }
    EXPECT_GE(counted, updates * kReplicas / 2) << "chunks, at speed " << speed;
    // Eight rounds, and what the first update takes longer because the pipeline fills.
    EXPECT_LE(lag, 12) << "updates, at speed " << speed;
  }
}

// How long each chunk of stage 0 stayed open after its newest part, if that is over `limit`. The
// owner's own part counts from when it was sent.
int64_t waits_over(const Notebook& recorder, Nanos since, Nanos limit) {
  int64_t waits = 0;
  for (const WorkRecord& record : recorder.records()) {
    const Work& work = record.work;
    const bool mean = work.kind == WorkKind::kReduce && work.lane == Lane::kMain;
    if (!mean || record.times.begin < since) continue;
    Nanos newest = {};
    for (const WorkRecord& part : recorder.records()) {
      const bool of_it = part.work.kind == WorkKind::kContribute && part.work.lane == Lane::kMain &&
                         part.work.index == work.index &&
                         part.worker.stage == record.worker.stage &&
                         work.replicas.contains(part.worker.replica);
      if (of_it) newest = std::max(newest, part.times.end);
    }
    if (record.times.begin > newest + limit) ++waits;
  }
  return waits;
}

TEST(Deadlines, AReplicaThatLeavesCostsEveryOwnerOneDeadline) {
  for (const bool follows : {true, false}) {
    SlowFleet fleet(follows);
    if (!follows) {  // a deadline of the same length
      for (LanePlan& lane : fleet.plan.lanes) lane.deadline = 10 * kSecond;
      fleet.plan.evaluation.deadline = 10 * kSecond;
    }
    const Nanos left_at = 200 * kSecond;
    fleet.options.departures = departures_of(kMesh, {3}, left_at);
    fleet.options.notice = 2000 * kSecond;  // owners find out by themselves
    const Finished run(fleet.plan, fleet.options, kReplicas);
    const std::vector<int64_t> means = means_of(run.recorder);
    EXPECT_EQ(means[1], 0);
    // A part is at most 650 ms on its way, and an owner busy for at most 1.2 s with other work.
    const int64_t waits = waits_over(run.recorder, left_at, 3 * kSecond);
    EXPECT_GE(waits, 1);
    // Chunks of two or three rounds may be open at each of the six owners when the first expires.
    EXPECT_LE(waits, 6 * 3) << "of " << count(means) << " means";
  }
}

// A factor that one worker wants becomes the interval of all: rounds still have all contributors.
TEST(Deadlines, TheGuardStretchesTheIntervalOfAllReplicas) {
  SlowFleet fleet(/*follows=*/true);
  fleet.plan.lanes[0].lag_limit = 0.4;
  const Finished run(fleet.plan, fleet.options, kReplicas);
  const std::vector<int64_t> means = means_of(run.recorder);
  EXPECT_GE(means[kReplicas], count(means) * 8 / 10);
  const auto rounds = [&](int64_t replica) {
    int64_t parts = 0;
    for (const WorkRecord& record : run.recorder.of({{replica}, {0}}, WorkKind::kContribute))
      parts += record.work.lane == Lane::kMain ? 1 : 0;
    return parts;
  };
  for (int64_t r = 0; r < kReplicas; ++r) {
    EXPECT_LE(rounds(r), 75) << "of 150 updates, replica " << r;
    EXPECT_NEAR(static_cast<double>(rounds(r)), static_cast<double>(rounds(0)), 3);
  }
}

}  // namespace
}  // namespace leeway::sim
