// Breaks each rule of the checker once. The workers never run: the work is made up.
#include "drivers/sim/checker.h"

#include <gtest/gtest.h>

#include "sim_testing.h"

namespace leeway::sim {
namespace {

void arrive(Checker& checker, MessageKind kind, WorkerId to) {
  Message message;
  message.kind = kind;
  message.to = to;
  message.payload_bytes = 5;
  checker.sent(message);
  checker.received(message);
}

// Two stages, K = 1: stage 0 has W = 1, stage 1 has none. All messages have arrived.
class CheckerDeathTest : public testing::Test {
 protected:
  CheckerDeathTest() : checker_(kMesh, workers_) {
    for (int i = 0; i < 10; ++i) {
      arrive(checker_, MessageKind::kActivation, stage(1));
      arrive(checker_, MessageKind::kGradient, stage(0));
    }
  }

  static constexpr Mesh kMesh = {.stages = 2, .replicas = 1};

  static Work work(WorkKind kind, int64_t index, int64_t version, int64_t delay) {
    return {.kind = kind, .index = index, .update = index + 1, .version = version, .delay = delay};
  }
  static Work forward(int64_t m, int64_t version, int64_t delay) {
    return work(WorkKind::kForward, m, version, delay);
  }
  static Work backward(int64_t m, int64_t version, int64_t delay) {
    return work(WorkKind::kBackward, m, version, delay);
  }
  static Work update(int64_t n) { return {.kind = WorkKind::kUpdate, .index = n, .update = n}; }
  static Work evaluate(int64_t update, int64_t batch) {
    return {.kind = WorkKind::kEvaluate, .index = batch, .update = update};
  }

  RunPlan plan_ = plan_of({.stages = 2}, 10);
  IdleWorkers workers_ = make_mesh(plan_);
  Checker checker_;
};

TEST_F(CheckerDeathTest, GoodOrderPasses) {
  for (const Work& good : {forward(0, 0, 0), forward(1, 0, 1), backward(0, 0, 0), update(1),
                           evaluate(1, 0), forward(2, 1, 1), backward(1, 0, 1), update(2),
                           evaluate(1, 1), evaluate(2, 0), backward(2, 1, 1), update(3)}) {
    checker_.began(0, good);
  }
}

TEST_F(CheckerDeathTest, AReportOfAnUpdateThatWasNotMade) {
  const auto report = [](int64_t number, Report claim) {
    return Message{.kind = MessageKind::kReport,
                   .from = stage(0),
                   .to = kCoordinator,
                   .index = number,
                   .report = std::make_shared<const Report>(std::move(claim))};
  };
  for (const Work& good : {forward(0, 0, 0), forward(1, 0, 1), backward(0, 0, 0), update(1)}) {
    checker_.began(0, good);
  }
  checker_.told(report(1, UpdateDone{.update = 1}));
  checker_.told(report(1, UpdateDone{.update = 1}));  // again
  checker_.told({.kind = MessageKind::kHeard, .from = kCoordinator, .to = stage(0), .index = 1});
  EXPECT_DEATH(checker_.told(report(2, UpdateDone{.update = 2})), "that was not made");
  EXPECT_DEATH(checker_.told(report(2, leeway::Finished{.updates = 2})), "that was not made");
  EXPECT_DEATH(checker_.told(report(2, UpdateDone{.update = 1})), "claimed once");
  EXPECT_DEATH(checker_.told(report(3, Present{})), "in order");
  EXPECT_DEATH(checker_.told(
                   {.kind = MessageKind::kHeard, .from = kCoordinator, .to = stage(0), .index = 2}),
               "that nobody made");
}

TEST_F(CheckerDeathTest, AMicrobatchTwice) {
  checker_.began(0, forward(0, 0, 0));
  EXPECT_DEATH(checker_.began(0, forward(0, 0, 0)), "forwards: each once, in order");
  EXPECT_DEATH(checker_.began(0, backward(1, 0, 0)), "backwards: each once, in order");
}

TEST_F(CheckerDeathTest, ABackwardWithoutItsForward) {
  EXPECT_DEATH(checker_.began(0, backward(0, 0, 0)), "without its forward");
}

TEST_F(CheckerDeathTest, MoreInFlightThanTheDepth) {
  checker_.began(0, forward(0, 0, 0));
  checker_.began(0, forward(1, 0, 1));
  EXPECT_DEATH(checker_.began(0, forward(2, 0, 2)), "more than W_s \\+ 1 in flight");
}

TEST_F(CheckerDeathTest, ADelayThatBreaksTheFormula) {
  checker_.began(0, forward(0, 0, 0));
  EXPECT_DEATH(checker_.began(0, forward(1, 0, 0)), "delay 0, after .*the formula gives 1");
}

TEST_F(CheckerDeathTest, OldWeights) {
  checker_.began(1, forward(0, 0, 0));
  checker_.began(1, backward(0, 0, 0));
  checker_.began(1, update(1));
  EXPECT_DEATH(checker_.began(1, forward(1, 0, 0)), "not the newest weights");
}

TEST_F(CheckerDeathTest, ABackwardWithOtherWeightsThanItsForward) {
  checker_.began(0, forward(0, 0, 0));
  checker_.began(0, forward(1, 0, 1));
  checker_.began(0, backward(0, 0, 0));
  checker_.began(0, update(1));
  EXPECT_DEATH(checker_.began(0, backward(1, 1, 0)), "not the weights of its forward");
  EXPECT_DEATH(checker_.began(0, backward(1, 0, 0)), "the gradient meets weights its delay");
}

TEST_F(CheckerDeathTest, AnUpdateTooEarly) {
  checker_.began(0, forward(0, 0, 0));
  EXPECT_DEATH(checker_.began(0, update(1)), "K microbatches");
}

TEST_F(CheckerDeathTest, SavingWhatIsInFlight) {
  checker_.began(0, forward(0, 0, 0));
  const Work save = {.kind = WorkKind::kSave};
  EXPECT_DEATH(checker_.began(0, save), "nothing in flight is ever saved");
}

TEST_F(CheckerDeathTest, EvaluationsOutOfOrder) {
  checker_.began(0, evaluate(0, 0));
  EXPECT_DEATH(checker_.began(0, evaluate(0, 0)), "evaluations are in order");
  EXPECT_DEATH(checker_.began(0, evaluate(0, 2)), "evaluations are in order");
  EXPECT_DEATH(checker_.began(0, evaluate(1, 0)), "weights that do not exist yet");
}

// Three stages: stage 1 drains where stage 0 did not.
TEST_F(CheckerDeathTest, AFlushPointOfOnlyOneStage) {
  const RunPlan plan = plan_of({.stages = 3}, 10);
  Checker checker({.stages = 3, .replicas = 1}, make_mesh(plan));
  arrive(checker, MessageKind::kActivation, stage(1));
  arrive(checker, MessageKind::kActivation, stage(1));
  arrive(checker, MessageKind::kGradient, stage(1));
  for (int64_t m = 0; m < 3; ++m) checker.began(0, forward(m, 0, m));
  checker.began(1, forward(0, 0, 0));
  checker.began(1, backward(0, 0, 0));
  checker.began(1, update(1));
  EXPECT_DEATH(checker.began(1, forward(1, 1, 0)), "a flush point that stage 0 did not have");
}

TEST_F(CheckerDeathTest, WorkBeforeItsMessages) {
  Checker checker(kMesh, workers_);
  const char* const early = "before what it needs has arrived";
  EXPECT_DEATH(checker.began(1, forward(0, 0, 0)), early);
  EXPECT_DEATH(checker.began(1, evaluate(0, 0)), early);
  checker.began(0, forward(0, 0, 0));
  EXPECT_DEATH(checker.began(0, backward(0, 0, 0)), early);
}

TEST_F(CheckerDeathTest, AnUpdateBeforeTheNorms) {
  const RunPlan plan = plan_of({.order = PipelineSchedule::k1f1b, .stages = 2}, 10);
  Checker checker(kMesh, make_mesh(plan));
  arrive(checker, MessageKind::kActivation, stage(1));
  arrive(checker, MessageKind::kGradient, stage(0));
  for (const size_t worker : {size_t{0}, size_t{1}}) {
    checker.began(worker, forward(0, 0, 0));
    checker.began(worker, backward(0, 0, 0));
    EXPECT_DEATH(checker.began(worker, update(1)), "before what it needs has arrived");
  }
  arrive(checker, MessageKind::kNorms, stage(0));
  arrive(checker, MessageKind::kTotalNorm, stage(1));
  checker.began(0, update(1));
  checker.began(1, update(1));
  checker.ended();
}

TEST_F(CheckerDeathTest, AnIncompleteEnd) {
  Checker checker(kMesh, workers_);
  checker.ended();
  Message message;
  message.kind = MessageKind::kGradient;
  message.payload_bytes = 5;
  checker.sent(message);
  EXPECT_DEATH(checker.ended(), "every message sent was received");
  checker.received(message);
  EXPECT_DEATH(checker.ended(), "a message that no work used");
  checker.began(0, forward(0, 0, 0));
  EXPECT_DEATH(checker.ended(), "each microbatch that went forward came back");
  checker.began(0, backward(0, 0, 0));
  EXPECT_DEATH(checker.ended(), "each gradient went into an update");
  checker.began(0, update(1));
  EXPECT_DEATH(checker.ended(), "same counts");
}

}  // namespace
}  // namespace leeway::sim
