// Faults with real compute, in virtual time: the replicas' weights converge again, and the fault
// leaves no lasting damage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../support/worker_testing.h"
#include "averaging/merge.h"
#include "config/averaging_rules.h"
#include "drivers/sim/simulation.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

constexpr int64_t kStages = 2;
constexpr int64_t kReplicas = 3;
constexpr int64_t kUpdates = 260;
constexpr Mesh kMesh = {.stages = kStages, .replicas = kReplicas};
// An update takes about a microsecond: updates 60 to 100 of 260.
constexpr sim::Window kFault = {{60'000}, {100'000}};

enum class Fault { kNone, kSlowLink, kLostLink, kPaused, kHalfSpeed, kGone };

// Distance of the remaining replicas from their mean, relative to its size, at this moment.
double spread_now(const Workers& workers, Fault fault) {
  double spread = 0, scale = 0;
  for (int64_t s = 0; s < kStages; ++s) {
    std::vector<at::Tensor> weights;
    for (int64_t r = 0; r < kReplicas; ++r) {
      if (fault == Fault::kGone && r == 1) continue;
      const Worker& worker = *workers[kMesh.index({.replica = {r}, .stage = {s}})];
      weights.push_back(worker.compute()->stage().weights());
      EXPECT_TRUE(at::isfinite(weights.back()).all().item<bool>());
    }
    const at::Tensor mean = mean_of(weights);
    spread += spread_of(weights, mean);
    scale += at::dot(mean, mean).item<double>();
  }
  return std::sqrt(spread / scale);
}

// Measures all replicas when replica 0 ends: one that is still behind would train alone from then
// on.
class Watcher final : public Recorder {
 public:
  Watcher(const Workers& workers, Fault fault) : workers_(workers), fault_(fault) {}
  void worked(const WorkRecord& record) override {
    repeats += record.work.kind == WorkKind::kRepeat ? 1 : 0;
  }
  void updated(const StageUpdate& update) override {
    EXPECT_TRUE(update.applied);
    if (update.update != kUpdates || update.worker != WorkerId{}) return;
    spread = spread_now(workers_, fault_);
  }
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}

  double spread = 0;
  int64_t repeats = 0;

 private:
  const Workers& workers_;
  Fault fault_;
};

Recipe recipe_of(AveragingMethod method, Correction correction) {
  Recipe recipe = tiny_recipe();
  recipe.run.updates = kUpdates;
  recipe.data.batch = 1;
  recipe.optimizer.schedule =
      RateSchedule::kConstant;  // a decaying rate would bring replicas together by itself
  recipe.pipeline.lookahead = Lookahead::kNone;
  recipe.mesh.stages = kStages;
  recipe.mesh.replicas = kReplicas;
  recipe.averaging = averaging_defaults(method);
  recipe.averaging.merge = MergePolicy::kOnArrival;
  recipe.averaging.deadline_ms = 0.004;
  recipe.averaging.granularity = 4;
  if (method == AveragingMethod::kSparse) {
    recipe.averaging.fraction = 0.25;
    recipe.averaging.correction = correction;
    recipe.averaging.outer_momentum = correction == Correction::kEma ? 0.5 : 0;
  } else {
    recipe.averaging.smoothing = 0;
    recipe.averaging.gain = 0;
    recipe.averaging.repair_every = 1;
  }
  return recipe;
}

sim::SimulationOptions sound_options(uint64_t seed) {
  return {
      .costs = std::vector<sim::StageCosts>(kMesh.count(), {{300}, {600}, {100}, {10}, {90}, {5}}),
      .links = {.seed = seed, .all = {.latency = {200}, .jitter = {400}}, .exceptions = {}}};
}

sim::SimulationOptions options_of(Fault fault, uint64_t seed) {
  sim::SimulationOptions options = sound_options(seed);
  for (int64_t s = 0; s < kStages; ++s) {
    const WorkerId victim = {.replica = {1}, .stage = {s}};
    const WorkerId other = {.replica = {0}, .stage = {s}};
    const auto cut = sim::cut_off(kMesh, victim, kFault);
    if (fault == Fault::kSlowLink) {
      options.links.exceptions.push_back({victim, other, {.latency = {9000}}});
    }
    if (fault == Fault::kLostLink) {
      options.outages.insert(options.outages.end(), cut.begin(), cut.end());
    }
    if (fault == Fault::kPaused) {
      options.pauses.push_back(
          {.worker = victim, .begin = kFault.begin, .length = kFault.length()});
    }
    if (fault == Fault::kHalfSpeed) {
      sim::StageCosts& costs = options.costs[kMesh.index(victim)];
      costs = sim::at_speed(costs, 0.5);
    }
    if (fault == Fault::kGone) options.departures.push_back({.worker = victim, .at = kFault.begin});
  }
  return options;
}

struct Outcome {
  double spread = 0;
  int64_t repeats = 0;
};

Outcome train(const Recipe& recipe, const TokenFile& tokens, Fault fault, uint64_t seed) {
  const MeshData data = {.train = tokens, .valid = nullptr, .vocabulary = kVocabulary};
  const RunPlan plan = make_plan(recipe, data);
  const Workers workers = make_workers(recipe, data, plan);
  Watcher recorder(workers, fault);
  EXPECT_TRUE(sim::Simulation(options_of(fault, seed)).run(workers, recorder).ok());
  for (const auto& worker : workers) {
    const bool left = fault != Fault::kGone || worker->id().replica.value != 1;
    if (!left) continue;
    EXPECT_EQ(worker->counts().updates, kUpdates);
  }
  return {.spread = recorder.spread, .repeats = recorder.repeats};
}

struct Case {
  std::string name;
  AveragingMethod method;
  Correction correction;
};

class Faults : public testing::TestWithParam<Case> {
 protected:
  Tokens tokens_{4001};
};

TEST_P(Faults, ReplicasComeTogetherAgain) {
  Recipe recipe = recipe_of(GetParam().method, GetParam().correction);
  Recipe apart = recipe;
  apart.averaging = averaging_defaults(AveragingMethod::kNone);
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    recipe.run.seed = apart.run.seed = static_cast<int64_t>(seed);
    const double alone = train(apart, tokens_.file(), Fault::kNone, seed).spread;
    const double healthy = train(recipe, tokens_.file(), Fault::kNone, seed).spread;
    EXPECT_LT(healthy, alone / 3) << "seed " << seed;
    for (const Fault fault :
         {Fault::kSlowLink, Fault::kLostLink, Fault::kPaused, Fault::kHalfSpeed, Fault::kGone}) {
      SCOPED_TRACE(fmt::format("seed {} fault {}", seed, static_cast<int>(fault)));
      const Outcome outcome = train(recipe, tokens_.file(), fault, seed);
      // With lowbit each chunk keeps its owner for the whole run: only repair rounds keep the
      // chunks of a lost owner together.
      const bool orphans = GetParam().method == AveragingMethod::kLowbit && fault == Fault::kGone;
      EXPECT_LT(outcome.spread, (orphans ? 6 : 3) * healthy);
      const bool asks = GetParam().method == AveragingMethod::kLowbit && fault == Fault::kLostLink;
      if (asks) {
        EXPECT_GT(outcome.repeats, 0) << "lost answers are asked for again";
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(
    Methods, Faults,
    testing::Values(Case{"delta", AveragingMethod::kSparse, Correction::kDelta},
                    Case{"ema", AveragingMethod::kSparse, Correction::kEma},
                    Case{"lowbit", AveragingMethod::kLowbit, Correction::kNone}),
    name_of);

}  // namespace
}  // namespace leeway
