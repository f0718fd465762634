#include "drivers/sim/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "events/traffic.h"

#include "round_plans.h"
#include "sim_testing.h"

namespace leeway::sim {
namespace {

using testing::HasSubstr;

// A run with evaluations, checkpoints and jitter, and a plan that repeats it without evaluating or
// saving.
class Replay : public testing::Test {
 protected:
  Replay() {
    plan_.evaluate_every = 2;
    plan_.evaluation_batches = 2;
    plan_.checkpoint_every = 4;
    const StageCosts costs = {{100}, {200}, {30}, {5}, {90}};
    Finished run(plan_, {.costs = equal_costs(3, costs),
                         .links = {.seed = 5, .all = {.latency = {50}, .jitter = {300}}}});
    recorded_ = run.recorder.records();
    again_ = plan_;
    again_.evaluation_batches = 0;
    again_.saves = false;
  }

  Status replayed(const std::vector<WorkRecord>& records, const LogCoverage& coverage = {}) {
    return replay(make_mesh(again_), records, recorder_, {.coverage = coverage});
  }

  RunPlan plan_ = plan_of({.stages = 3, .update_every = 2}, 10);
  RunPlan again_;
  std::vector<WorkRecord> recorded_;
  Notebook recorder_;
};

TEST_F(Replay, RepeatsTheRecordedWork) {
  ASSERT_TRUE(replayed(recorded_).ok());
  std::vector<WorkRecord> training;
  for (const WorkRecord& record : recorded_) {
    const bool saves = record.work.kind == WorkKind::kSave;
    if (!is_evaluation(record.work) && !saves) training.push_back(record);
  }
  ASSERT_EQ(recorder_.records().size(), training.size());
  for (size_t i = 0; i < training.size(); ++i) {
    EXPECT_EQ(recorder_.records()[i].worker, training[i].worker);
    EXPECT_EQ(recorder_.records()[i].work, training[i].work);
    EXPECT_EQ(recorder_.records()[i].times.end, training[i].times.end);
  }
}

TEST_F(Replay, NamesTheFirstRecordThatDiffers) {
  std::vector<WorkRecord> records = recorded_;
  size_t at = 20;
  while (records[at].work.kind != WorkKind::kBackward) ++at;
  const Work was = records[at].work;
  records[at].work.version += 7;
  const Status status = replayed(records);
  ASSERT_FALSE(status.ok());
  const std::string& message = status.error().message;
  EXPECT_THAT(message, HasSubstr("record " + std::to_string(at + 1) + " differs"));
  EXPECT_THAT(message, HasSubstr("version " + std::to_string(was.version + 7)));
  EXPECT_THAT(message, HasSubstr("but would do backward " + std::to_string(was.index)));
  EXPECT_THAT(message, HasSubstr("version " + std::to_string(was.version) + ","));
}

TEST_F(Replay, SaysWhenAWorkerWouldWait) {
  std::vector<WorkRecord> records = recorded_;
  records.erase(records.begin());  // stage 0's first forward: stage 1 cannot continue
  const Status status = replayed(records);
  ASSERT_FALSE(status.ok());
  const Status waits = replayed({recorded_[0], recorded_[0]});
  ASSERT_FALSE(waits.ok());
  std::vector<WorkRecord> stranger = {recorded_[0]};
  stranger[0].worker = stage(1);
  const Status early = replayed(stranger);
  ASSERT_FALSE(early.ok());
  EXPECT_THAT(early.error().message, HasSubstr("but would wait now"));
}

TEST_F(Replay, SaysThatALogIsCutOff) {
  std::vector<WorkRecord> records = recorded_;
  records.resize(records.size() / 2);
  const Status status = replayed(records);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("the event log is cut off: its "));
}

TEST_F(Replay, RefusesAWorkerThatDoesNotExist) {
  std::vector<WorkRecord> records = recorded_;
  records[3].worker = stage(3);
  const Status status = replayed(records);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "record 4 belongs to replica 0 stage 3, which this run does not have");
}

// A lag of one and a half updates: the log says after which backward.
TEST(ReplayOfRounds, MergesInsideAnUpdateAreRepeatedWhereTheyWere) {
  for (const Method method : {Method::kSparse, Method::kLowbit}) {
    RunPlan plan = plan_of({.stages = 2, .update_every = 4}, 10);
    add_lanes({.method = method, .replicas = 2, .lag_backwards = 6}, plan);
    plan.saves = false;
    const StageCosts costs = {{100}, {200}, {30}, {5}, {90}, RoundCosts::each({10})};
    Finished run(plan, {.costs = std::vector<StageCosts>(4, costs)}, 2);
    std::vector<WorkRecord> records = run.recorder.records();
    std::vector<size_t> inside;
    for (size_t at = 0; at < records.size(); ++at) {
      const Work& work = records[at].work;
      if (work.kind != WorkKind::kMerge || work.position == 0) continue;
      inside.push_back(at);
      EXPECT_DOUBLE_EQ(lag_of(work), 1.5);
      EXPECT_EQ(work.position, 2);
    }
    EXPECT_EQ(inside.size(), 8 * 4 * plan.lanes[0].sizes[0].chunks) << "all but those of the end";
    for (WorkRecord& record : records) record = work_of(to_event(record)).value();
    Notebook recorder;
    ASSERT_TRUE(replay(make_mesh(run.plan), records, recorder).ok());
    records[inside.front()].work.position = 3;
    EXPECT_FALSE(replay(make_mesh(run.plan), records, recorder).ok());
  }
}

// A merge changes the weights, and the forwards of an update have all used the same.
TEST(ReplayOfRounds, RefusesAMergeAfterTheNextForward) {
  RunPlan plan = plan_of({.stages = 1, .update_every = 2}, 10);
  add_lanes({.method = Method::kSparse, .replicas = 2, .lag_backwards = 2}, plan);
  plan.saves = false;
  const StageCosts costs = {{100}, {200}, {30}, {5}, {90}, RoundCosts::each({10})};
  Finished run(plan, {.costs = std::vector<StageCosts>(2, costs)}, 2);
  std::vector<WorkRecord> records = run.recorder.records();
  Notebook recorder;
  ASSERT_TRUE(replay(make_mesh(run.plan), records, recorder).ok());

  const auto merge = std::ranges::find(records, WorkKind::kMerge,
                                       [](const WorkRecord& record) { return record.work.kind; });
  ASSERT_NE(merge, records.end());
  const auto forward = std::find_if(merge, records.end(), [&](const WorkRecord& record) {
    return record.worker == merge->worker && record.work.kind == WorkKind::kForward;
  });
  ASSERT_NE(forward, records.end());
  std::rotate(merge, merge + 1, forward + 1);
  const Status status = replay(make_mesh(run.plan), records, recorder);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("did merge 0 of update"));
}

// What each worker did, in its own order. An owner's work for others has no place in it.
std::map<WorkerId, std::vector<Work>> by_worker(const std::vector<WorkRecord>& records) {
  std::map<WorkerId, std::vector<Work>> found;
  for (const auto& [id, work, times, bytes, norms] : records) {
    const bool for_others = work.kind == WorkKind::kReduce || work.kind == WorkKind::kRepeat;
    const bool left_out = is_evaluation(work) || work.kind == WorkKind::kSave || for_others;
    if (!left_out) found[id].push_back(work);
  }
  return found;
}

struct Logged {
  std::vector<WorkRecord> records;
  LogCoverage coverage;
};

Logged logged(const std::vector<WorkRecord>& records, LogLevel level) {
  Logged kept;
  kept.coverage.note(Event("started").add("log", log_level_word(level)));
  std::map<WorkerId, int64_t> making;
  for (const WorkRecord& record : records) {
    int64_t& next = making.try_emplace(record.worker, 1).first->second;
    if (logs(level, record.work, next)) kept.records.push_back(record);
    if (record.work.kind == WorkKind::kUpdate) next = record.work.update + 1;
  }
  return kept;
}

// Replicas that merge on arrival, so that the order of merges is in the log alone.
class ReplayOfALevel : public testing::TestWithParam<std::tuple<Method, PipelineSchedule>> {
 protected:
  ReplayOfALevel() {
    plan_.shape.order = std::get<1>(GetParam());
    plan_.checkpoint_every = 40;
    add_lanes({.method = std::get<0>(GetParam()), .replicas = 2}, plan_);
    const StageCosts costs = {{100}, {200}, {30}, {5}, {90}};
    Finished run(plan_,
                 {.costs = equal_costs(3, costs),
                  .links = {.seed = 5, .all = {.latency = {50}, .jitter = {300}}}},
                 2);
    records_ = run.recorder.records();
    plan_ = run.plan;
    plan_.saves = false;
  }

  RunPlan plan_ = plan_of({.stages = 3, .update_every = 3}, 150);
  std::vector<WorkRecord> records_;
};

TEST_P(ReplayOfALevel, DoesWhatTheLogLacks) {
  for (const LogLevel level : {LogLevel::kAuto, LogLevel::kUpdates, LogLevel::kAll}) {
    const Logged log = logged(records_, level);
    EXPECT_EQ(log.records.size() == records_.size(), level == LogLevel::kAll);
    Notebook recorder;
    const Status status =
        replay(make_mesh(plan_), log.records, recorder, {.coverage = log.coverage});
    ASSERT_TRUE(status.ok()) << log_level_word(level) << ": " << status.error().message;
    EXPECT_EQ(by_worker(recorder.records()), by_worker(records_)) << log_level_word(level);
  }
}

TEST_P(ReplayOfALevel, MissesWhatTheLevelKeeps) {
  Logged log = logged(records_, LogLevel::kAuto);
  const auto found = std::find_if(log.records.begin(), log.records.end(), [](const auto& record) {
    return record.work.kind == WorkKind::kForward && record.work.update == 135;
  });
  ASSERT_NE(found, log.records.end());
  log.records.erase(found);
  Notebook recorder;
  const Status status = replay(make_mesh(plan_), log.records, recorder, {.coverage = log.coverage});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("differs from the run"));
}

INSTANTIATE_TEST_SUITE_P(
    Methods, ReplayOfALevel,
    testing::Combine(testing::Values(Method::kNone, Method::kSparse, Method::kLowbit,
                                     Method::kDiloco, Method::kAllreduce),
                     testing::Values(PipelineSchedule::kAsync, PipelineSchedule::k1f1b)));

}  // namespace
}  // namespace leeway::sim
