// Whole meshes with real compute, driven manually.
#include "run/mesh_model.h"

#include <gtest/gtest.h>

#include <limits>

#include "../../support/joined_states.h"
#include "../../support/memory_store.h"
#include "../../support/mesh_testing.h"
#include "../../support/worker_testing.h"
#include "base/rng.h"
#include "inference/evaluation.h"

namespace leeway {
namespace {

struct Trained {
  at::Tensor weights;
  std::vector<double> losses;
  MemoryRecorder recorder;
  MemoryStore store;
};

class MeshTest : public testing::Test {
 protected:
  MeshData data() const { return {tokens_.file(), &tokens_.file(), kVocabulary}; }

  // Turns in an order drawn from `seed`.
  Trained train(const Recipe& recipe, uint64_t seed = 1) {
    const RunPlan plan = make_plan(recipe, data());
    const Workers workers = make_workers(recipe, data(), plan);
    Trained trained;
    EXPECT_TRUE(
        HandDriver(workers, &trained.store).run(trained.recorder, [&](size_t turn, size_t ready) {
          return random_bits({seed, Stream::kSampler, 0}, turn) % ready;
        }));
    trained.weights = weights_of(workers).clone();
    trained.losses = trained.recorder.losses();
    return trained;
  }

  Tokens tokens_{401};
};

TEST_F(MeshTest, SynchronousSchedulesGiveTheBitsOfOneStage) {
  for (const UpdateRule name : {UpdateRule::kAdamW, UpdateRule::kMuon}) {
    Recipe one = mesh_recipe(1, 4);
    one.optimizer.name = name;
    one.optimizer.clip = 0.1;  // so that the norm of the whole model matters
    const Trained whole = train(one);
    for (const auto schedule : {PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
      for (const int64_t stages : {2, 4}) {
        Recipe cut = one;
        cut.mesh.stages = stages;
        cut.pipeline.schedule = schedule;
        const Trained pipeline = train(cut, static_cast<uint64_t>(stages));
        EXPECT_TRUE(at::equal(pipeline.weights, whole.weights)) << stages << " stages";
        EXPECT_EQ(pipeline.losses, whole.losses);
      }
    }
  }
}

TEST_F(MeshTest, TheOrderOfTurnsDoesNotChangeTheBits) {
  for (const Lookahead lookahead :
       {Lookahead::kNone, Lookahead::kPredict, Lookahead::kMatched, Lookahead::kTentative}) {
    Recipe recipe = mesh_recipe(4, 4);
    recipe.pipeline.lookahead = lookahead;
    const Trained first = train(recipe, 1);
    EXPECT_TRUE(at::equal(first.weights, train(recipe, 2).weights));
    EXPECT_TRUE(at::equal(first.weights, train(recipe, 3).weights));
  }
}

TEST_F(MeshTest, LookAheadsDifferOnlyWhereGradientsAreLate) {
  const auto weights = [&](int64_t stages, Lookahead lookahead) {
    Recipe recipe = mesh_recipe(stages, 4);
    recipe.pipeline.lookahead = lookahead;
    return train(recipe).weights;
  };
  const at::Tensor none = weights(4, Lookahead::kNone);
  const at::Tensor sync = weights(1, Lookahead::kNone);
  EXPECT_FALSE(at::allclose(none, sync));
  for (const Lookahead other : {Lookahead::kPredict, Lookahead::kMatched, Lookahead::kTentative}) {
    EXPECT_FALSE(at::allclose(weights(4, other), none));
    EXPECT_TRUE(at::equal(weights(1, other), sync));
  }
}

// With one late forward per update, all but one of the gradients are known when it starts; with as
// many guesses as late forwards, little is left to chance.
TEST_F(MeshTest, ATentativeGuessIsCloserThanTheOldWeights) {
  Recipe recipe = mesh_recipe(2, 4);
  recipe.pipeline.lookahead = Lookahead::kTentative;
  recipe.run.updates = 12;
  const Trained trained = train(recipe);
  ASSERT_FALSE(trained.recorder.predictions.empty());
  for (const Prediction& prediction : trained.recorder.predictions) {
    EXPECT_EQ(prediction.worker.stage.value, 0) << "the last stage is never late";
    EXPECT_LT(prediction.error, 1.0);
  }
}

// A host counts without making workers.
TEST_F(MeshTest, KnowsItsSizeWithoutWorkers) {
  for (const UpdateRule rule : {UpdateRule::kMuon, UpdateRule::kAdamW, UpdateRule::kSgd}) {
    for (const Lookahead lookahead : {Lookahead::kNone, Lookahead::kPredict}) {
      Recipe recipe = mesh_recipe(2, 1);
      recipe.optimizer.name = rule;
      recipe.pipeline.lookahead = lookahead;
      const RunPlan plan = make_plan(recipe, data());
      const Workers workers = make_workers(recipe, data(), plan);
      const MeshSize size = mesh_size(recipe, data().vocabulary);
      EXPECT_EQ(size.parameters, parameters_of(workers));
      EXPECT_EQ(size.buffers, workers.front()->compute()->buffer_count());
      ASSERT_EQ(size.stages.size(), 2U);
      EXPECT_EQ(size.stages[1], workers[1]->compute()->stage().weights().numel());
    }
  }
}

TEST_F(MeshTest, ResumesFromASavedStateWithTheSameBits) {
  for (const Lookahead lookahead : {Lookahead::kPredict, Lookahead::kTentative}) {
    Recipe recipe = mesh_recipe(2, lookahead == Lookahead::kPredict ? 1 : 2);
    recipe.pipeline.lookahead = lookahead;
    recipe.run.checkpoint_every = 3;
    const Trained whole = train(recipe);
    ASSERT_EQ(whole.store.states.size(), 4U);  // two stages at updates 3 and 6
    const std::vector<StageState> saved = whole.store.states_at(3);

    RunPlan plan = make_plan(recipe, data());
    plan.first_update = 3;
    const Workers workers = make_workers(recipe, data(), plan);
    ASSERT_TRUE(restore(workers, recipe, join(saved, /*stages=*/2)).ok());
    MemoryRecorder recorder;
    EXPECT_TRUE(HandDriver(workers).run(recorder));
    EXPECT_TRUE(at::equal(weights_of(workers), whole.weights));
  }
}

TEST_F(MeshTest, EvaluationsSeeOneVersionOfAllStages) {
  Recipe recipe = mesh_recipe(4, 4);
  recipe.run.evaluate_every = 2;
  recipe.run.evaluate_windows = 5;
  recipe.run.checkpoint_every = 2;  // saves the weights that were evaluated
  recipe.pipeline.lookahead = Lookahead::kTentative;
  const Trained trained = train(recipe);
  ASSERT_EQ(trained.recorder.evaluations.size(), 3U);
  for (const StageEvaluation& evaluation : trained.recorder.evaluations) {
    const std::vector<StageState> saved = trained.store.states_at(evaluation.update);
    ASSERT_EQ(saved.size(), 4U);
    const Workers one =
        make_workers(mesh_recipe(1, 4), data(), make_plan(mesh_recipe(1, 4), data()));
    const StageModel& model = one[0]->compute()->stage().model();
    const StageViews views = model.view(join(saved, /*stages=*/4).weights);
    const auto loss = [&](const Batch& batch) {
      return model.loss(views, batch.inputs, batch.targets);
    };
    const auto direct = evaluate(loss, tokens_.file(), {.context = 8, .windows = 5, .batch = 1});
    EXPECT_EQ(evaluation.loss, direct->loss);
    EXPECT_EQ(evaluation.windows, 5);
  }
}

TEST_F(MeshTest, LeavesTheWeightsAloneIfTheLossIsNotFinite) {
  for (const auto schedule : {PipelineSchedule::kAsync, PipelineSchedule::k1f1b}) {
    Recipe recipe = mesh_recipe(2, 1);
    recipe.pipeline.schedule = schedule;
    const RunPlan plan = make_plan(recipe, data());
    const Workers workers = make_workers(recipe, data(), plan);
    const at::Tensor nowhere =
        at::full_like(weights_of(workers), std::numeric_limits<double>::quiet_NaN());
    const ModelState state = {.weights = nowhere,
                              .replicas = {{.weights = nowhere, .optimizer = {}}}};
    ASSERT_TRUE(restore(workers, recipe, state).ok());
    MemoryRecorder recorder;
    EXPECT_TRUE(HandDriver(workers).run(recorder)) << "no replica is left";
    ASSERT_FALSE(recorder.updates.empty());
    for (const StageUpdate& update : recorder.updates) EXPECT_FALSE(update.applied);
    for (const auto& worker : workers) EXPECT_EQ(worker->counts().updates, 0);
  }
}

}  // namespace
}  // namespace leeway
