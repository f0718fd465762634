// Threads and virtual time give the same bits, in forty configurations drawn from a seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "../support/worker_testing.h"
#include "../support/zmq_posts.h"
#include "base/rng.h"
#include "config/averaging_rules.h"
#include "drivers/sim/simulation.h"
#include "drivers/threads/threads.h"
#include "run/device.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

constexpr uint64_t kConfigurations = 40;

// Another seed: LEEWAY_SEED=7 build/tests/conformance_drivers --gtest_filter='SameBits.*'
uint64_t first_seed() {
  const char* given = std::getenv("LEEWAY_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  int64_t between(int64_t least, int64_t most) {
    const auto count = static_cast<uint64_t>(most - least + 1);
    return least + static_cast<int64_t>(random_bits({seed_, Stream::kSampler, 0}, next_++) % count);
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  uint64_t seed_;
  uint64_t next_ = 0;
};

// Uses fixed lags, so that the bits do not depend on the driver.
void draw_replicas(Draw& draw, Recipe& recipe) {
  recipe.mesh.replicas = draw.between(1, 3);
  AveragingOptions& averaging = recipe.averaging;
  averaging = averaging_defaults(
      draw.one_of({AveragingMethod::kSparse, AveragingMethod::kSparse, AveragingMethod::kLowbit,
                   AveragingMethod::kDiloco, AveragingMethod::kAllreduce, AveragingMethod::kWeights,
                   AveragingMethod::kNone}));
  averaging.merge = MergePolicy::kFixedLag;
  const bool late = averaging.method == AveragingMethod::kSparse ||
                    averaging.method == AveragingMethod::kLowbit ||
                    averaging.method == AveragingMethod::kDiloco;
  const auto every = static_cast<double>(recipe.pipeline.update_every);
  const auto half = static_cast<double>((recipe.pipeline.update_every + 1) / 2);
  averaging.lag =
      late ? draw.one_of({0.0, 1.0, 3.0, 1 / every, half / every, 1 + half / every}) : 0;
  averaging.granularity = draw.one_of({int64_t{1}, int64_t{5}, int64_t{64}});
  if (late) averaging.interval = draw.between(1, 3);
  averaging.guard = draw.between(0, 3) == 0;
  if (averaging.method != AveragingMethod::kSparse) return;
  averaging.fraction = draw.one_of({0.2, 0.5, 1.0});
  averaging.correction = draw.one_of({Correction::kNone, Correction::kDelta, Correction::kEma});
  averaging.wire = draw.one_of({WireFormat::kF32, WireFormat::kBf16, WireFormat::kInt8Stochastic});
}

Recipe random_recipe(uint64_t seed) {
  Draw draw(seed);
  Recipe recipe = tiny_recipe();
  recipe.run.updates = draw.between(3, 8);
  recipe.run.precision = draw.one_of({Precision::kFp32, Precision::kFp64});
  recipe.run.evaluate_every = draw.between(0, 3);
  recipe.run.evaluate_windows = 6;
  recipe.run.checkpoint_every = draw.between(0, 4);
  recipe.model.layers = 5;
  recipe.mesh.stages = draw.between(1, 5);
  recipe.optimizer.name =
      draw.one_of({UpdateRule::kMuon, UpdateRule::kAdamW, UpdateRule::kNAdamW, UpdateRule::kSgd});
  recipe.optimizer.clip = draw.one_of({0.0, 0.1, 1.0});
  PipelineOptions& pipeline = recipe.pipeline;
  pipeline.schedule = draw.one_of({PipelineSchedule::kAsync, PipelineSchedule::kAsync,
                                   PipelineSchedule::k1f1b, PipelineSchedule::kGpipe});
  pipeline.extra_per_hop = draw.between(0, 2);
  const int64_t depth = (recipe.mesh.stages - 1) * (1 + pipeline.extra_per_hop);
  pipeline.update_every = draw.one_of({int64_t{1}, int64_t{2}, depth + 1});
  recipe.data.batch = pipeline.update_every * draw.between(1, 2);
  pipeline.lookahead = draw.one_of(
      {Lookahead::kNone, Lookahead::kPredict, Lookahead::kMatched, Lookahead::kTentative});
  pipeline.refresh = draw.between(1, 3);
  const bool tentative_fits = pipeline.update_every > depth;
  if (pipeline.lookahead == Lookahead::kTentative && !tentative_fits) {
    pipeline.lookahead = Lookahead::kNone;
  }
  if (recipe.optimizer.name == UpdateRule::kNAdamW) pipeline.lookahead = Lookahead::kNesterov;
  pipeline.recompute = draw.between(0, 2) == 0;
  pipeline.stash = !pipeline.recompute || draw.between(0, 1) == 0;
  draw_replicas(draw, recipe);
  // A machine with a GPU: LEEWAY_TEST_DEVICE=cuda. Its attention has no fp64.
  const char* const device = std::getenv("LEEWAY_TEST_DEVICE");
  if (device == nullptr) return recipe;
  recipe.run.device = device;
  if (recipe.run.precision == Precision::kFp64) recipe.run.precision = Precision::kFp32;
  return recipe;
}

using Losses = std::map<std::pair<int64_t, int64_t>, double>;  // by update and replica

class QuietRecorder final : public Recorder {
 public:
  void worked(const WorkRecord&) override {}
  void updated(const StageUpdate& update) override {
    if (update.loss) losses[{update.update, update.worker.replica.value}] = *update.loss;
  }
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation& evaluation) override {
    evaluations.push_back(evaluation.loss);
  }

  Losses losses;
  std::vector<double> evaluations;
};

struct Outcome {
  at::Tensor weights;  // all workers' weights, one after the other
  Losses losses;
  std::vector<double> evaluations;
};

Outcome train(const Recipe& recipe, const TokenFile& tokens, Driver& driver) {
  const MeshData data = {.train = tokens, .valid = &tokens, .vocabulary = kVocabulary};
  const RunPlan plan = make_plan(recipe, data);
  const Workers workers = make_workers(recipe, data, plan);
  QuietRecorder recorder;
  EXPECT_TRUE(driver.run(workers, recorder).ok());
  for (const auto& worker : workers) EXPECT_TRUE(worker->done());
  std::vector<at::Tensor> weights;
  for (const auto& worker : workers) weights.push_back(worker->compute()->stage().weights());
  return {at::cat(weights), recorder.losses, recorder.evaluations};
}

// Stages of different speeds and links with jitter: an order of events that threads never have.
sim::Simulation simulation_of(const Recipe& recipe, uint64_t seed,
                              const sim::MessageFaults& messages = {}) {
  std::vector<sim::StageCosts> costs;
  for (int64_t s = 0; s < recipe.mesh.stages * recipe.mesh.replicas; ++s) {
    const int64_t slow = 100 * (1 + (s * 7 + static_cast<int64_t>(seed)) % 3);
    costs.push_back({.forward = {slow},
                     .backward = {2 * slow},
                     .update = {50},
                     .save = {10},
                     .evaluate = {slow},
                     .rounds = sim::RoundCosts::each({s * 3 % 20})});
  }
  return sim::Simulation({.costs = std::move(costs),
                          .links = {.seed = seed, .all = {.latency = {70}, .jitter = {500}}},
                          .messages = messages});
}

TEST(SameBits, UnderThreadsAndInVirtualTime) {
  const Tokens tokens(801);
  for (uint64_t seed = first_seed(); seed < first_seed() + kConfigurations; ++seed) {
    SCOPED_TRACE(fmt::format(
        "repeat with: LEEWAY_SEED={} build/tests/conformance_drivers --gtest_filter='SameBits.*'",
        seed));
    const Recipe recipe = random_recipe(seed);
    if (recipe.run.device != "cpu") set_up_compute(recipe);
    threads::Threads threads(/*threads_per_worker=*/1);
    sim::Simulation simulation = simulation_of(recipe, seed);
    const Outcome real = train(recipe, tokens.file(), threads);
    const Outcome simulated = train(recipe, tokens.file(), simulation);
    EXPECT_TRUE(at::equal(real.weights, simulated.weights));
    EXPECT_EQ(real.losses, simulated.losses);
    EXPECT_EQ(real.evaluations, simulated.evaluations);
    EXPECT_EQ(std::ssize(real.losses), recipe.run.updates * recipe.mesh.replicas);
    EXPECT_FALSE(real.evaluations.empty());
    if (seed % 4 != 0) continue;  // the others cost as much again
    const std::unique_ptr<Driver> processes = one_process_each(recipe.mesh.stages);
    sim::Simulation network = simulation_of(
        recipe, seed, {.seed = seed, .twice = 0.2, .class_jitter = {900}, .through_bytes = true});
    for (Driver* const driver : {processes.get(), static_cast<Driver*>(&network)}) {
      const Outcome carried = train(recipe, tokens.file(), *driver);
      EXPECT_TRUE(at::equal(real.weights, carried.weights));
      EXPECT_EQ(real.losses, carried.losses);
      EXPECT_EQ(real.evaluations, carried.evaluations);
    }
  }
}

#ifdef LEEWAY_MESH_OVER_TCP
TEST(SameBits, OverTcpAndInVirtualTime) {
  const Tokens tokens(801);
  for (const auto& [stages, replicas] : {std::pair{2, 2}, {4, 2}, {3, 3}}) {
    SCOPED_TRACE(fmt::format("{} stages, {} replicas", stages, replicas));
    Recipe recipe = random_recipe(first_seed());
    recipe.mesh = {.stages = stages, .replicas = replicas};
    recipe.pipeline = {.update_every = stages};
    recipe.data.batch = stages;
    recipe.optimizer.name = UpdateRule::kMuon;
    recipe.averaging = averaging_defaults(AveragingMethod::kSparse);
    recipe.averaging.merge = MergePolicy::kFixedLag;
    sim::Simulation simulation = simulation_of(recipe, first_seed());
    const Outcome simulated = train(recipe, tokens.file(), simulation);
    const Outcome real = train(recipe, tokens.file(), *one_process_each_over_tcp(stages));
    EXPECT_TRUE(at::equal(real.weights, simulated.weights));
    EXPECT_EQ(real.losses, simulated.losses);
    EXPECT_EQ(real.evaluations, simulated.evaluations);
    EXPECT_FALSE(real.evaluations.empty());
  }
}
#endif

}  // namespace
}  // namespace leeway
