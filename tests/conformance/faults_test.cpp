// Faults with real compute, in virtual time: the replicas' weights converge again, and the fault
// leaves no lasting damage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "../support/memory_store.h"
#include "../support/reference_merge.h"
#include "averaging/merge.h"
#include "trio.h"

namespace leeway {
namespace {

constexpr int64_t kUpdates = 260;
// An update takes about a microsecond: updates 60 to 100 of 260.
constexpr sim::Window kFault = {{60'000}, {100'000}};

enum class Fault {
  kNone,
  kSlowLink,
  kLostLink,
  kPaused,
  kHalfSpeed,
  kGone,
  kBack,          // lost, and back with another's state
  kBackWithDisk,  // with its own
};
bool comes_back(Fault fault) { return fault == Fault::kBack || fault == Fault::kBackWithDisk; }

// Distance of the remaining replicas from their mean, relative to its size, at this moment.
double spread_now(const Places& workers, Fault fault) {
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
// on. And when the one that was lost has made its first update again.
class Watcher final : public Recorder {
 public:
  Watcher(const Places& workers, MemoryStore& disk, Fault fault)
      : workers_(workers), disk_(disk), fault_(fault) {}
  void worked(const WorkRecord& record) override {
    repeats += record.work.kind == WorkKind::kRepeat ? 1 : 0;
    if (record.work.kind != WorkKind::kTransfer) return;
    const bool joins = record.worker.replica.value == 1;
    transfers += joins ? 0 : 1;
    if (!joins || fault_ != Fault::kBackWithDisk) return;
    const Worker& worker = *workers_[kMesh.index(record.worker)];
    const auto saved = disk_.newest_of(record.worker);
    loads += at::equal(worker.compute()->stage().weights(), saved->weights) ? 1 : 0;
  }
  void members(const Membership& table) override { restart = table.restart({1}); }
  void updated(const StageUpdate& update) override {
    EXPECT_TRUE(update.applied);
    const bool back = update.worker.replica.value == 1 && restart.epoch > 0;
    int64_t& newest = newest_[update.worker];
    EXPECT_EQ(update.update, (back ? std::max(newest, restart.update) : newest) + 1);
    newest = update.update;
    if (back && update.worker.stage.value == 0 && newest == restart.update + 1) {
      spread_back = spread_now(workers_, fault_);
    }
    if (update.update != kUpdates || update.worker != WorkerId{}) return;
    spread = spread_now(workers_, fault_);
  }
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}

  double spread = 0;
  double spread_back = 0;
  int64_t repeats = 0;
  int64_t transfers = 0;  // of those that are there
  int64_t loads = 0;      // of states that were saved
  Membership::Restart restart;

 private:
  const Places& workers_;
  MemoryStore& disk_;
  Fault fault_;
  std::map<WorkerId, int64_t> newest_;  // update that it has reported
};

Recipe recipe_of(AveragingMethod method, Correction correction) {
  Recipe recipe = trio_recipe(method);
  recipe.run.updates = kUpdates;
  recipe.data.batch = 1;
  recipe.optimizer.schedule =
      RateSchedule::kConstant;  // a decaying rate would bring replicas together by itself
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
  }
  return recipe;
}

sim::SimulationOptions options_of(Fault fault, uint64_t seed) {
  sim::SimulationOptions options = trio_machines(seed);
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
    if (fault == Fault::kGone || comes_back(fault)) {
      options.departures.push_back({.worker = victim, .at = kFault.begin});
    }
    if (comes_back(fault)) {
      options.returns.push_back(
          {.worker = victim, .at = kFault.end, .with_disk = fault == Fault::kBackWithDisk});
    }
  }
  return options;
}

Watcher train(const Recipe& recipe, const TokenFile& tokens, Fault fault, uint64_t seed) {
  const MeshData data = {.train = tokens, .valid = nullptr, .vocabulary = kVocabulary};
  const RunPlan plan = make_plan(recipe, data);
  const Workers workers = make_workers(recipe, data, plan);
  Places places = places_of(workers);
  sim::Simulation simulation(options_of(fault, seed));
  simulation.fill_places(maker_into(places, recipe, data, plan));
  MemoryStore disk;
  Watcher watcher(places, disk, fault);
  EXPECT_TRUE(simulation.run(workers, watcher, &disk).ok());
  for (const Worker* worker : places) {
    const bool left = fault != Fault::kGone || worker->id().replica.value != 1;
    if (!left) continue;
    EXPECT_EQ(worker->counts().updates, kUpdates);
  }
  return watcher;
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
      const Watcher outcome = train(recipe, tokens_.file(), fault, seed);
      EXPECT_LT(outcome.spread, 3 * healthy);
      const bool asks = GetParam().method == AveragingMethod::kLowbit && fault == Fault::kLostLink;
      if (asks) {
        EXPECT_GT(outcome.repeats, 0) << "lost answers are asked for again";
      }
    }
  }
}

// One that is back has a common model from another's state or not at all: common_model_test.cpp.
class SparseFaults : public Faults {};

TEST_P(SparseFaults, OneThatIsLostComesBack) {
  Recipe recipe = recipe_of(GetParam().method, GetParam().correction);
  recipe.run.checkpoint_every = 40;  // its own state is good enough for so many updates
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    recipe.run.seed = static_cast<int64_t>(seed);
    const double healthy = train(recipe, tokens_.file(), Fault::kNone, seed).spread;
    for (const Fault fault : {Fault::kBack, Fault::kBackWithDisk}) {
      SCOPED_TRACE(fmt::format("seed {} fault {}", seed, static_cast<int>(fault)));
      const Watcher outcome = train(recipe, tokens_.file(), fault, seed);
      EXPECT_GT(outcome.restart.epoch, 0);
      if (fault == Fault::kBack) {
        EXPECT_GT(outcome.transfers, 0);
        EXPECT_LT(outcome.spread_back, 3 * healthy) << "it begins with another's weights";
      } else {
        EXPECT_EQ(outcome.transfers, 0);
        EXPECT_EQ(outcome.loads, kStages) << "it begins with its own";
      }
      EXPECT_LT(outcome.spread, 3 * healthy);
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
INSTANTIATE_TEST_SUITE_P(Methods, SparseFaults,
                         testing::Values(Case{"delta", AveragingMethod::kSparse,
                                              Correction::kDelta},
                                         Case{"ema", AveragingMethod::kSparse, Correction::kEma}),
                         name_of);

}  // namespace
}  // namespace leeway
