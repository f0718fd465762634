// Work that a device finishes after finish(): what is told of it waits, and nothing else does.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "../../support/mesh_testing.h"
#include "compute/late_reports.h"
#include "kernels/gate.h"
#include "worker/worker.h"
#include "worker_story.h"

namespace leeway {
namespace {

class Nowhere final : public Outbox {
  void send(Message) override {}
  void remind(Message, Nanos) override {}
  void store(std::shared_ptr<const StageState>) override {}
};

// One stage, two updates of two microbatches, on a device that finishes when the test says so.
class LateWorkTest : public testing::Test {
 protected:
  void step() {
    const auto work = worker_.next();
    ASSERT_TRUE(work.has_value());
    Outcome outcome = worker_.run(*work);
    const size_t number = begun_++;
    outcome.when_done = [this, number](bool wait) -> std::optional<WorkTimes> {
      if (wait) finished_ = std::max(finished_, number + 1);
      if (number >= finished_) return std::nullopt;
      const auto time = static_cast<int64_t>(number);
      return WorkTimes{.begin = {10 * time}, .end = {10 * time + 5}};
    };
    worker_.finish(*work, std::move(outcome), hand_, recorder_);
  }

  const RunPlan plan_ = {
      .shape = {.order = PipelineSchedule::kAsync, .stages = 1, .update_every = 2},
      .first_update = 0,
      .last_update = 2,
      .run_updates = 2,
      .saves = false};
  const Workers workers_ = make_workers_without_compute(plan_);
  Worker& worker_ = *workers_.front();
  Nowhere hand_;
  MemoryRecorder recorder_;
  size_t begun_ = 0;
  size_t finished_ = 0;
};

TEST_F(LateWorkTest, IsLoggedInOrderWithTheTimesOfTheDevice) {
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(worker_.counts().updates, 1) << "the host goes on";
  EXPECT_EQ(story(recorder_, 0), "");
  EXPECT_TRUE(worker_.has_late());
  finished_ = 2;
  worker_.settle(hand_, recorder_);
  EXPECT_EQ(story(recorder_, 0), "F0 B0");
  EXPECT_EQ(recorder_.records[1].times.begin, Nanos{10});
  finished_ = 4;
  step();  // whatever it does next tells of it too
  EXPECT_EQ(story(recorder_, 0), "F0 B0 F1 B1");
}

TEST_F(LateWorkTest, AWorkerIsNotDoneBeforeItWasTold) {
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(worker_.counts().updates, 2);
  EXPECT_FALSE(worker_.done());
  EXPECT_FALSE(worker_.next().has_value());
  finished_ = 10;
  worker_.settle(hand_, recorder_);
  EXPECT_TRUE(worker_.done());
  EXPECT_EQ(story(recorder_, 0), "F0 B0 F1 B1 U1 F2 B2 F3 B3 U2");
}

TEST(LateReports, TellWhatTheGateSays) {
  const at::Tensor gate = make_gate(at::kCPU);
  set_gate({.norms = at::tensor({4.0, 5.0}, at::kDouble), .losses = at::tensor({2.0, 3.0})}, gate);
  LateUpdate late = {
      .known = {.worker = {}, .update = 7}, .gate = Readout(gate.clone()), .loss = true};
  EXPECT_TRUE(late.gate.here());
  EXPECT_TRUE(late.read().applied);
  EXPECT_EQ(late.read().update, 7);
  EXPECT_EQ(late.read().squared_norm, 9);
  EXPECT_EQ(late.read().loss, 2.5);
  EXPECT_FALSE(late.read().total_squared_norm.has_value());
  set_gate({.norms = at::full({1}, std::numeric_limits<double>::infinity(), at::kDouble)}, gate);
  late.gate = Readout(gate);
  EXPECT_FALSE(late.read().applied);
  EXPECT_EQ(late.read().update, 6);
}

TEST(LateReports, NameThePartsThatWereLeftOut) {
  const LateNorms merge = {.count = 3, .sums = Readout(at::tensor({1.0, 2.0}, at::kDouble))};
  EXPECT_EQ(merge.read(), (RoundNorms{.count = 3, .drift = 1, .correction = 2}));
  EXPECT_TRUE(merge.refused().empty());
  const LateNorms reduction = {.count = 3,
                               .reduction = true,
                               .sums = Readout(at::tensor({5.0, 6.0, 1.0, 0.0, 1.0}, at::kDouble))};
  EXPECT_EQ(reduction.read(), (RoundNorms{.count = 3, .spread = 6, .scale = 5}));
  EXPECT_EQ(reduction.refused(), std::vector<size_t>{1});
  EXPECT_EQ(LateNorms{.count = 4}.read(), RoundNorms{.count = 4});
}

}  // namespace
}  // namespace leeway
