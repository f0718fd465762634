// What a network may do to messages: they come twice, overtake those of other classes, pass through
// bytes; those of averaging and of the coordinator get lost; replicas pause and leave, the
// coordinator is started again, and disks are slow or fail. The run ends, what it claims was done
// was done, and nothing piles up.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "round_plans.h"

namespace leeway::sim {
namespace {

struct MessageScenario {
  RunPlan plan;
  SimulationOptions options;
  size_t stop_after = SIZE_MAX;
  std::vector<size_t> save_after;
  std::optional<int64_t> victim;
  double disk_fails = 0;              // share of the attempts to write
  std::optional<WorkerId> dead_disk;  // never writes
};

// Keeps nothing, and fails now and then.
class FlakyDisk final : public ShardStore {
 public:
  FlakyDisk(const MessageScenario& scenario, uint64_t seed) : scenario_(scenario), dice_(seed) {}
  Result<Stored> store(const StageState& state) override {
    const bool fails = static_cast<double>(dice_(0, 999)) < 1000 * scenario_.disk_fails;
    if (fails || state.worker == scenario_.dead_disk) return Error{"the disk fails"};
    return Stored{.file = "shard", .size = 1, .hash = static_cast<uint64_t>(state.update)};
  }
  // Nobody waits for a disk that is dead.
  bool wait_to_store(const Error&) override { return !scenario_.dead_disk || ++waits_ < 50; }

 private:
  const MessageScenario& scenario_;
  Dice dice_;
  int waits_ = 0;
};

RunPlan random_plan(Dice& dice, bool on_arrival) {
  // Most runs are short, so that there are many. What grows with every round shows in the others.
  RunPlan plan = random_pipeline(dice, dice.one_in(10) ? dice(200, 500) : dice(20, 60));
  plan.run = 77;
  plan.recipe = 78;
  const auto method = static_cast<Method>(dice(0, kMethods - 1));
  add_lanes({.method = method,
             .replicas = dice(1, 4),
             .cycle = dice(1, 10),
             .lag_backwards = on_arrival ? std::nullopt : std::optional(dice(0, 7)),
             .deadline = 10 * kMillisecond},
            plan);
  mix_evaluations(plan);
  return plan;
}

// Replicas pause and leave, and so does the coordinator.
void add_absences(Dice& dice, MessageScenario& scenario) {
  const RunPlan& plan = scenario.plan;
  const Mesh mesh = {.stages = plan.shape.stages, .replicas = plan.replicas};
  SimulationOptions& options = scenario.options;
  for (int64_t i = dice(0, 2); i > 0; --i) {
    const ReplicaId replica = {dice(0, plan.replicas - 1)};
    const Nanos begin = dice(0, 100) * kMillisecond;
    const Nanos length = dice(1, dice.one_in(4) ? 1000 : 100) * kMillisecond;
    const int64_t first = dice(0, plan.shape.stages - 1);
    const int64_t last = dice(first, plan.shape.stages - 1);
    for (int64_t s = first; s <= last; ++s) {
      const WorkerId worker = {.replica = replica, .stage = {s}};
      options.pauses.push_back({.worker = worker, .begin = begin, .length = length});
    }
  }
  if (plan.replicas > 1 && dice.one_in(2)) {
    scenario.victim = dice(0, plan.replicas - 1);
    const Nanos at = dice(1, 80) * kMillisecond;
    options.departures = departures_of(mesh, {*scenario.victim}, at);
    if (dice.one_in(2)) {  // its other stages stay
      const auto which = static_cast<size_t>(dice(0, plan.shape.stages - 1));
      options.departures = {options.departures[which]};
    }
    options.notice = dice(0, 30) * kMillisecond;
  }
  Nanos begin;
  for (int64_t i = dice(0, 2); i > 0; --i) {
    begin = begin + dice(1, 100) * kMillisecond;
    const Nanos end = begin + dice(0, 60) * kMillisecond;
    options.coordinator_outages.push_back({begin, end});
    begin = end;
  }
}

MessageScenario random_scenario(uint64_t seed) {
  Dice dice(seed);
  const bool on_arrival = dice.one_in(2);
  MessageScenario scenario;
  scenario.plan = random_plan(dice, on_arrival);
  const RunPlan& plan = scenario.plan;
  SimulationOptions& options = scenario.options;
  for (int64_t i = 0; i < plan.shape.stages * plan.replicas; ++i) {
    options.costs.push_back(random_costs(dice, 1));
  }
  options.links = {.seed = seed, .all = random_link(dice), .exceptions = {}};
  options.messages = {.seed = seed,
                      .twice = dice.one_in(3) ? 0 : 0.2,
                      .lost = 0,
                      .class_jitter = dice.one_in(3) ? Nanos{0} : dice(0, 5000) * kMicrosecond,
                      .through_bytes = dice.one_in(2)};
  const bool waits = !on_arrival || std::ranges::any_of(plan.lanes, [](const LanePlan& lane) {
    return lane.lag_backwards.has_value();
  });
  // Who waits for every answer cannot do without one.
  if (!waits && dice.one_in(2)) options.messages.lost = 0.05;
  if (dice.one_in(3)) scenario.stop_after = static_cast<size_t>(dice(10, 2000));
  for (int i = 0; i < 2; ++i) {
    if (dice.one_in(3)) scenario.save_after.push_back(static_cast<size_t>(dice(10, 2000)));
  }
  add_absences(dice, scenario);
  // Disks that are slow, fail or are dead.
  if (dice.one_in(2)) options.save_time = dice(0, dice.one_in(4) ? 5000 : 100) * kMillisecond;
  if (dice.one_in(3)) scenario.disk_fails = 0.3;
  if (dice.one_in(8)) {
    scenario.dead_disk = WorkerId{.replica = {dice(0, plan.replicas - 1)},
                                  .stage = {dice(0, plan.shape.stages - 1)}};
  }
  return scenario;
}

// What a worker keeps too much of; empty: nothing. `behind`: the most updates that it was ever
// behind others, whose copies for evaluation it keeps. Nothing else may depend on how long the run
// is.
std::string overfull(const Worker& worker, int64_t behind) {
  const RunPlan& plan = worker.plan();
  const Held held = worker.held();
  const int64_t in_flight = 2 * plan.shape.stages;  // W_s + 1 each way
  const int64_t evaluations = 8 + (plan.evaluate_every > 0 ? behind / plan.evaluate_every : 0);
  const int64_t lanes = std::ssize(plan.lanes);
  int64_t chunks = 0;
  for (const LanePlan& lane : plan.lanes) chunks += lane.chunks(worker.id().stage);
  constexpr int64_t kRounds = 64;  // that a worker goes back
  const std::array<std::tuple<const char*, int64_t, int64_t>, 8> limits = {
      {{"messages of the pipeline", held.pipeline, in_flight},
       {"batches of validation data", held.evaluations, in_flight + 5},
       {"open chunks", held.open_chunks, 256 * (lanes + 1) + chunks},
       {"answers asked for again", held.repeats, kRounds * chunks * plan.replicas},
       {"answers given", held.given, kRounds * chunks + evaluations},
       {"rounds in flight", held.rounds, kRounds * chunks},
       {"answers not merged", held.answers, 256 * chunks},
       {"reports", held.reports, 256}}};
  for (const auto& [what, count, limit] : limits) {
    if (count <= limit) continue;
    return fmt::format("replica {} stage {} keeps {} {}, more than {}", worker.id().replica.value,
                       worker.id().stage.value, count, what, limit);
  }
  return "";
}

// What reports claim, against what was done.
class Auditor final : public Recorder {
 public:
  Auditor(const MessageScenario& scenario, const Workers& workers)
      : scenario_(scenario), workers_(workers) {}
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    ++records_;
    if (record.work.kind == WorkKind::kUpdate) {
      made_[record.worker] = record.work.update;
      newest_ = std::max(newest_, record.work.update);
    }
    if (records_ == scenario_.stop_after) ask_(Ask::kStop);
    if (std::ranges::count(scenario_.save_after, records_) > 0) ask_(Ask::kSave);
    for (const auto& worker : workers_) {
      int64_t& behind = behind_[worker->id()];
      const bool hears_late = scenario_.victim && scenario_.options.messages.lost > 0;
      behind = std::max(behind, hears_late ? newest_ : newest_ - worker->counts().updates);
      if (too_much.empty()) too_much = overfull(*worker, behind);
    }
  }
  void predicted(const Prediction&) override {}
  void refused(const RefusedMessage& refusal) override {
    if (refusal.reason == "more than can be open") return;  // an owner stood still for long
    refusals += fmt::format("; {} {} refused kind {} of {} {}: {}", refusal.at.replica.value,
                            refusal.at.stage.value, static_cast<int>(refusal.kind),
                            refusal.from.replica.value, refusal.from.stage.value, refusal.reason);
  }
  // The simulation's checker sees what is claimed about each update. Workers without compute have
  // nothing else to say about one.
  void updated(const StageUpdate&) override { ADD_FAILURE() << "there is no compute"; }
  void evaluated(const StageEvaluation&) override {}
  void saved(const ShardSaved& saved) override {
    EXPECT_LE(saved.update, made_[saved.worker]) << "saved before it was made";
    if (saved.stored()) stored_[saved.worker] = std::max(stored_[saved.worker], saved.update);
  }
  // What a stop promises: the last state of everyone who was there to the end is on disk.
  void finished(WorkerId worker, const leeway::Finished& finished) override {
    if (worker != scenario_.dead_disk && worker.replica.value != scenario_.victim) {
      EXPECT_EQ(stored_[worker], finished.updates) << "done before its last state was stored";
    }
    EXPECT_EQ(finished.updates, made_[worker]) << "what it claims is not what was made";
  }

  std::string refusals;
  std::string too_much;

 private:
  const MessageScenario& scenario_;
  const Workers& workers_;
  AskRun ask_;
  size_t records_ = 0;
  std::map<WorkerId, int64_t> made_;    // updates
  std::map<WorkerId, int64_t> stored_;  // the newest update on disk
  std::map<WorkerId, int64_t> behind_;  // at most, updates
  int64_t newest_ = 0;                  // update of any worker
};

uint64_t run(const MessageScenario& scenario, uint64_t seed) {
  const RunPlan& plan = scenario.plan;
  const IdleWorkers workers = make_mesh(plan);
  Simulation simulation(scenario.options);
  Auditor auditor(scenario, workers);
  FlakyDisk disk(scenario, seed);
  EXPECT_TRUE(simulation.run(workers, auditor, &disk).ok());
  for (const auto& worker : workers) {
    if (worker->id().replica.value == scenario.victim) continue;
    EXPECT_TRUE(worker->over());
    EXPECT_TRUE(worker->done());
    if (scenario.stop_after == SIZE_MAX) {
      EXPECT_EQ(worker->counts().updates, plan.last_update);
    }
    EXPECT_EQ(worker->counts().in_flight(), 0);
  }
  EXPECT_EQ(auditor.too_much, "");
  // Parts of rounds may come after their owner has changed; nothing else is ever refused.
  if (scenario.options.departures.empty() && scenario.options.messages.lost == 0) {
    EXPECT_EQ(auditor.refusals, "");
  }
  return simulation.digest();
}

TEST(MessageSwarm, TheRunEnds) {
  run_swarm_of_digests({.seeds = 200, .share = 0.35},
                       [](uint64_t seed) { return run(random_scenario(seed), seed); });
}

}  // namespace
}  // namespace leeway::sim
