// What a network may do to messages: they come twice, overtake those of other classes, pass through
// bytes; those of averaging and of the coordinator get lost; replicas leave and the coordinator is
// started again. The run ends, what it claims was done was done, and nothing piles up.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "round_plans.h"

namespace leeway::sim {
namespace {

struct MessageScenario {
  RunPlan plan;
  SimulationOptions options;
  size_t stop_after = SIZE_MAX;
  std::vector<size_t> save_after;
  std::optional<int64_t> victim;
};

RunPlan random_plan(Dice& dice, bool on_arrival) {
  RunPlan plan =
      plan_of({.order = dice.one_in(3) ? PipelineSchedule::k1f1b : PipelineSchedule::kAsync,
               .stages = dice(1, 4),
               .update_every = dice(1, 3)},
              dice(20, 60));
  plan.evaluate_every = dice.one_in(2) ? 0 : dice(3, 20);
  plan.evaluation_batches = dice.one_in(2) ? 0 : dice(1, 3);
  plan.checkpoint_every = dice.one_in(2) ? 0 : dice(5, 40);
  plan.activation_bytes = 1000;
  plan.run = 77;
  plan.recipe = 78;
  const auto method = static_cast<Method>(dice(0, kMethods - 1));
  add_lanes({.method = method,
             .replicas = dice(1, 4),
             .cycle = dice(1, 10),
             .lag = on_arrival ? std::nullopt : std::optional(dice(0, 3)),
             .deadline = 10 * kMillisecond},
            plan);
  return plan;
}

MessageScenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  const bool on_arrival = dice.one_in(2);
  MessageScenario scenario;
  scenario.plan = random_plan(dice, on_arrival);
  const RunPlan& plan = scenario.plan;
  const Mesh mesh = {.stages = plan.shape.stages, .replicas = plan.replicas};
  SimulationOptions& options = scenario.options;
  for (size_t i = 0; i < mesh.count(); ++i) options.costs.push_back(random_costs(dice, 1));
  options.links = {.seed = seed, .all = random_link(dice), .exceptions = {}};
  options.messages = {.seed = seed,
                      .twice = dice.one_in(3) ? 0 : 0.2,
                      .lost = 0,
                      .class_jitter = dice.one_in(3) ? Nanos{0} : dice(0, 5000) * kMicrosecond,
                      .through_bytes = dice.one_in(2)};
  const bool waits = !on_arrival || std::ranges::any_of(plan.lanes, [](const LanePlan& lane) {
    return lane.lag.has_value();
  });
  // Who waits for every answer cannot do without one.
  if (!waits && dice.one_in(2)) options.messages.lost = 0.05;
  if (dice.one_in(3)) scenario.stop_after = static_cast<size_t>(dice(10, 2000));
  for (int i = 0; i < 2; ++i) {
    if (dice.one_in(3)) scenario.save_after.push_back(static_cast<size_t>(dice(10, 2000)));
  }
  if (plan.replicas > 1 && dice.one_in(2)) {
    scenario.victim = dice(0, plan.replicas - 1);
    const Nanos at = dice(1, 80) * kMillisecond;
    options.departures = departures_of(mesh, {*scenario.victim}, at);
    if (dice.one_in(2)) options.departures.resize(1);  // its other stages stay
    options.notice = dice(0, 30) * kMillisecond;
  }
  if (dice.one_in(2)) {
    const Nanos begin = dice(1, 100) * kMillisecond;
    options.coordinator_outages = {{begin, begin + dice(0, 60) * kMillisecond}};
  }
  return scenario;
}

// What reports claim, against what was done.
class Auditor final : public Recorder {
 public:
  explicit Auditor(const MessageScenario& scenario) : scenario_(scenario) {}
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    ++records_;
    if (record.work.kind == WorkKind::kUpdate) made_[record.worker] = record.work.update;
    if (records_ == scenario_.stop_after) ask_(Ask::kStop);
    if (std::ranges::count(scenario_.save_after, records_) > 0) ask_(Ask::kSave);
  }
  void predicted(const Prediction&) override {}
  void refused(const RefusedMessage& refusal) override {
    refusals += fmt::format("; {} {} refused kind {} of {} {}: {}", refusal.at.replica.value,
                            refusal.at.stage.value, static_cast<int>(refusal.kind),
                            refusal.from.replica.value, refusal.from.stage.value, refusal.reason);
  }
  void members(const Membership& table) override { newest = table; }
  void updated(const StageUpdate&) override {}
  void evaluated(const StageEvaluation&) override {}
  void saved(StageState) override {}
  void finished(WorkerId worker, const leeway::Finished& finished) override {
    EXPECT_LE(finished.updates, std::max(made_[worker], int64_t{0})) << "it claims too much";
    ++finished_count;
  }

  Membership newest;
  int64_t finished_count = 0;
  std::string refusals;

 private:
  const MessageScenario& scenario_;
  AskRun ask_;
  size_t records_ = 0;
  std::map<WorkerId, int64_t> made_;
};

class MessageSwarm : public SeededTest {};

TEST_P(MessageSwarm, TheRunEnds) {
  SCOPED_TRACE(repeat_command.data());
  const MessageScenario scenario = random_scenario(seed());
  const RunPlan& plan = scenario.plan;
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(scenario.options);
  Auditor auditor(scenario);
  ASSERT_TRUE(simulation.run(workers, auditor).ok());
  for (const auto& worker : workers) {
    if (worker->id().replica.value == scenario.victim) continue;
    EXPECT_TRUE(worker->over());
    EXPECT_TRUE(worker->done());
    if (scenario.stop_after == SIZE_MAX) {
      EXPECT_EQ(worker->counts().updates, plan.last_update);
    }
    EXPECT_EQ(worker->counts().in_flight(), 0);
  }
  // Parts of rounds may come after their owner has changed; nothing else is ever refused.
  if (scenario.options.departures.empty() && scenario.options.messages.lost == 0) {
    EXPECT_EQ(auditor.refusals, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MessageSwarm, testing::Range(0, 4 * seed_count()));

}  // namespace
}  // namespace leeway::sim
