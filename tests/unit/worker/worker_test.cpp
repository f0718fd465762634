// The state machine by itself: what it does next, what it sends, when it is done.
#include "worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/mesh_testing.h"
#include "base/rng.h"
#include "worker_story.h"

namespace leeway {
namespace {

using testing::ElementsAre;

RunPlan plan_of(PipelineSchedule order, int64_t stages, int64_t update_every, int64_t updates) {
  return {.shape = {.order = order, .stages = stages, .update_every = update_every},
          .first_update = 0,
          .last_update = updates,
          .run_updates = updates,
          .saves = false,
          .activation_bytes = 100};
}

TEST(Worker, DoesTheWorkOfOneStageInOrder) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 1, 2, 2);
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  EXPECT_EQ(story(recorder, 0), "F0 B0 F1 B1 U1 F2 B2 F3 B3 U2");
}

TEST(Worker, AsynchronousStagesRunAheadAndNeverDrain) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 3, 1, 4);
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  EXPECT_EQ(story(recorder, 0), "F0 F1 F2 B0 U1 F3 B1 U2 B2 U3 B3 U4");
  EXPECT_EQ(story(recorder, 2), "F0 B0 U1 F1 B1 U2 F2 B2 U3 F3 B3 U4");
  for (const WorkRecord& record : recorder.records) {
    if (record.work.kind != WorkKind::kForward) continue;
    const int64_t behind = 2 - record.worker.stage.value;
    EXPECT_EQ(record.work.delay, std::min(record.work.index, behind));
    EXPECT_EQ(record.work.version, record.work.index - record.work.delay);
    EXPECT_EQ(record.bytes_sent, record.worker.stage.value == 2 ? 0 : 100);
  }
}

TEST(Worker, TheUpdateComesAfterTheGradientHasLeft) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 1);
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  HandDriver hand(workers);
  Worker& first = *workers[0];
  Worker& last = *workers[1];
  const auto step = [&](Worker& worker) {
    const auto work = worker.next();
    ASSERT_TRUE(work.has_value());
    worker.finish(*work, worker.run(*work), hand, recorder);
  };
  step(first);  // forward
  step(last);   // forward
  step(last);   // backward
  EXPECT_EQ(last.next()->kind, WorkKind::kUpdate);
  EXPECT_EQ(first.next()->kind, WorkKind::kBackward) << "it does not wait for that update";
}

TEST(Worker, WaitsForWhatHasNotArrived) {
  const RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 1);
  const Workers workers = make_workers_without_compute(plan);
  EXPECT_FALSE(workers[1]->next().has_value());
  Message other = {
      .kind = MessageKind::kActivation, .from = {{0}, {0}}, .to = {{0}, {1}}, .index = 5};
  workers[1]->deliver(other);
  EXPECT_FALSE(workers[1]->next().has_value()) << "microbatch 5 is not microbatch 0";
  EXPECT_FALSE(workers[1]->done());
}

TEST(Worker, ASynchronousUpdateWaitsForTheNormOfTheWholeModel) {
  const RunPlan plan = plan_of(PipelineSchedule::k1f1b, 2, 1, 2);
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  std::vector<int64_t> order;
  for (const WorkRecord& record : recorder.records) {
    if (record.work.kind == WorkKind::kUpdate) order.push_back(record.worker.stage.value);
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 0, 1)) << "stage 0 adds up the norms";
}

TEST(Worker, ACheckpointIsAFlushPoint) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 4);
  plan.saves = true;
  plan.checkpoint_every = 2;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  EXPECT_EQ(story(recorder, 0), "F0 F1 B0 U1 B1 U2 S2 F2 F3 B2 U3 B3 U4 S4");
}

TEST(Worker, FlushPointsOfARecordingAreKept) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 4);
  plan.flushes = {{1, 3}};
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  EXPECT_EQ(story(recorder, 0), "F0 B0 U1 F1 F2 B1 U2 B2 U3 F3 B3 U4");
}

// The flush point holds what was in flight when stage 0 heard of the request, and training goes on.
TEST(Worker, ARequestedSaveDrainsThePipelineOnce) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 5);
  plan.saves = true;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  bool told = false;
  EXPECT_TRUE(HandDriver(workers).run(
      recorder, [](size_t, size_t) { return size_t{0}; },
      [&](const Work& work) {
        if (work.kind != WorkKind::kUpdate || work.update != 2 || std::exchange(told, true)) return;
        workers[0]->deliver({.kind = MessageKind::kNameSave, .from = kCoordinator, .to = {}});
      }));
  EXPECT_EQ(story(recorder, 0), "F0 F1 B0 U1 F2 B1 U2 B2 U3 S3 F3 F4 B3 U4 B4 U5 S5");
  EXPECT_EQ(story(recorder, 1), "F0 B0 U1 F1 B1 U2 F2 B2 U3 S3 F3 B3 U4 F4 B4 U5 S5");
}

TEST(Worker, AStopDrainsThePipeline) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 3, 1, 100);
  plan.saves = true;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  HandDriver hand(workers);
  bool told = false;
  EXPECT_TRUE(hand.run(
      recorder, [](size_t, size_t) { return size_t{0}; },
      [&](const Work& work) {
        if (told || work.kind != WorkKind::kUpdate || work.update != 5) return;
        workers[0]->deliver({.kind = MessageKind::kNameEnd, .from = kCoordinator, .to = {}});
        told = true;
      }));
  const int64_t end = workers[0]->counts().updates;
  EXPECT_GE(end, 5);
  EXPECT_LE(end, 8);  // two more were in flight, and stage 0 acts on it at its next update
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->counts().updates, end);
    EXPECT_EQ(worker->counts().in_flight(), 0);
  }
}

TEST(Worker, EvaluatesAtMostOneBatchPerTrainingForward) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 2, 6);
  plan.evaluate_every = 3;
  plan.evaluation_batches = 4;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  for (const int64_t stage : {0, 1}) {
    int64_t since_forward = 0, evaluations = 0;
    bool trained = false;
    for (const WorkRecord& record : recorder.records) {
      if (record.worker.stage.value != stage) continue;
      if (record.work.kind == WorkKind::kForward) since_forward = 0;
      if (record.work.kind == WorkKind::kUpdate) trained = record.work.update == 6;
      if (record.work.kind != WorkKind::kEvaluate) continue;
      ++evaluations;
      ++since_forward;
      EXPECT_TRUE(trained || since_forward <= 1) << story(recorder, stage);
      EXPECT_TRUE(record.work.version == 3 || record.work.version == 6);
    }
    EXPECT_EQ(evaluations, 8);
  }
}

TEST(Worker, WaitsIfEvaluationsCannotKeepUp) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 3, 1, 8);
  plan.evaluate_every = 1;
  plan.evaluation_batches = 5;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder)) << "stuck";
  std::vector<int64_t> done;
  for (const WorkRecord& record : recorder.records) {
    const bool last = record.work.kind == WorkKind::kEvaluate && record.work.index == 4;
    if (last && record.worker.stage.value == 2) done.push_back(record.work.update);
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Worker, ASessionThatIsOverHasNothingToDo) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 4);
  plan.first_update = 4;
  plan.saves = true;
  for (const auto& worker : make_workers_without_compute(plan)) {
    EXPECT_EQ(worker->next()->kind, WorkKind::kReport) << "it only says so";
    EXPECT_TRUE(worker->done()) << "its initial state is already on disk";
  }
}

TEST(Worker, ASessionMayBeginWithTheEvaluationThatIsDue) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 2, 1, 4);
  plan.first_update = 4;  // the run was cut off between its last update and its evaluation
  plan.evaluation_batches = 3;
  const Workers workers = make_workers_without_compute(plan);
  for (const auto& worker : workers) worker->evaluate_first();
  MemoryRecorder recorder;
  EXPECT_TRUE(HandDriver(workers).run(recorder));
  EXPECT_EQ(story(recorder, 1), "C4 R4 E0 E1 E2") << "through the same lane as many replicas";
}

TEST(Worker, EvaluationBatchesInFlightNeverOutnumberTheStages) {
  RunPlan plan = plan_of(PipelineSchedule::kAsync, 3, 1, 2);
  plan.evaluation_batches = 20;
  const Workers workers = make_workers_without_compute(plan);
  MemoryRecorder recorder;
  int64_t ahead = 0, most = 0;
  const auto watch = [&](const Work&) {
    ahead = 0;
    for (const WorkRecord& record : recorder.records) {
      if (record.work.kind != WorkKind::kEvaluate) continue;
      ahead += record.worker.stage.value == 0 ? 1 : 0;
      ahead -= record.worker.stage.value == 2 ? 1 : 0;
    }
    most = std::max(most, ahead);
  };
  // The first ready stage always goes next: unlimited, it would send all batches at once.
  EXPECT_TRUE(HandDriver(workers).run(
      recorder, [](size_t, size_t) { return size_t{0}; }, watch));
  EXPECT_EQ(story(recorder, 2).find("E19") != std::string::npos, true);
  EXPECT_LE(most, 4);
}

// Whatever the order of turns, each stage does the same things in the same order.
TEST(Worker, TheOrderOfTurnsChangesNothing) {
  for (const PipelineSchedule order :
       {PipelineSchedule::kAsync, PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
    RunPlan plan = plan_of(order, 4, 3, 5);
    plan.checkpoint_every = 2;
    const auto stories = [&](uint64_t seed) {
      const Workers workers = make_workers_without_compute(plan);
      MemoryRecorder recorder;
      EXPECT_TRUE(HandDriver(workers).run(recorder, [&](size_t turn, size_t ready) {
        return random_bits({seed, Stream::kSampler, 0}, turn) % ready;
      }));
      std::vector<std::string> all;
      for (int64_t s = 0; s < 4; ++s) all.push_back(story(recorder, s));
      return all;
    };
    for (const uint64_t seed : {2U, 3U, 4U}) EXPECT_EQ(stories(1), stories(seed));
  }
}

}  // namespace
}  // namespace leeway
