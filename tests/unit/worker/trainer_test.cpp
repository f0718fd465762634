#include "worker/trainer.h"

#include <gtest/gtest.h>

#include <limits>

#include "worker_testing.h"

namespace leeway {
namespace {

class TrainerTest : public testing::Test {
 protected:
  // The weights after some updates of what the recipe says.
  at::Tensor trained(const Recipe& recipe, int updates) {
    Trainer trainer(recipe, tokens_.file(), kVocabulary);
    for (int i = 0; i < updates; ++i) trainer.next_update();
    return trainer.weights().clone();
  }

  static Optimizer::State copy_of(Optimizer::State state) {
    for (auto& [name, buffer] : state.buffers) buffer = buffer.clone();
    return state;
  }

  Tokens tokens_{401};
};

TEST_F(TrainerTest, CountsUpdatesAndTokens) {
  Trainer trainer(tiny_recipe(), tokens_.file(), kVocabulary);
  EXPECT_EQ(trainer.updates_done(), 0);
  EXPECT_EQ(trainer.tokens_done(), 0);
  EXPECT_EQ(trainer.parameters(), trainer.weights().numel());
  const at::Tensor before = trainer.weights().clone();
  for (int64_t i = 1; i <= 3; ++i) {
    const UpdateReport report = trainer.next_update();
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(report.update, i);
    EXPECT_GT(report.gradient_norm, 0);
    EXPECT_EQ(trainer.updates_done(), i);
    EXPECT_EQ(trainer.tokens_done(), i * 4 * 8);
  }
  EXPECT_FALSE(at::equal(trainer.weights(), before));
}

TEST_F(TrainerTest, GivesTheSameBitsForTheSameSeed) {
  Recipe other = tiny_recipe();
  other.run.seed = 2;
  EXPECT_TRUE(at::equal(trained(tiny_recipe(), 2), trained(tiny_recipe(), 2)));
  EXPECT_FALSE(at::allclose(trained(tiny_recipe(), 2), trained(other, 2)));
}

TEST_F(TrainerTest, LearnsTheSameInStagesAsWhole) {
  Recipe cut = tiny_recipe();
  cut.mesh.stages = 2;
  EXPECT_TRUE(at::allclose(trained(tiny_recipe(), 0), trained(cut, 0), 0, 0));
  EXPECT_TRUE(at::allclose(trained(tiny_recipe(), 4), trained(cut, 4), 1e-10, 1e-12));
}

TEST_F(TrainerTest, LearnsTheSameFromOneBatchInSlices) {
  Recipe sliced = tiny_recipe();
  sliced.pipeline.update_every = 4;
  EXPECT_TRUE(at::allclose(trained(tiny_recipe(), 3), trained(sliced, 3), 1e-8, 1e-10));
}

TEST_F(TrainerTest, GoesOnFromAStateWithTheSameBits) {
  for (const int64_t stages : {1, 2}) {
    Recipe recipe = tiny_recipe();
    recipe.mesh.stages = stages;
    Trainer first(recipe, tokens_.file(), kVocabulary);
    for (int i = 0; i < 3; ++i) first.next_update();
    const at::Tensor weights = first.weights().clone();
    const Optimizer::State state = copy_of(first.optimizer_state());
    const UpdateReport expected = first.next_update();

    Trainer second(recipe, tokens_.file(), kVocabulary);
    ASSERT_TRUE(second.restore(weights, state).ok());
    EXPECT_EQ(second.updates_done(), 3);
    const UpdateReport report = second.next_update();
    EXPECT_EQ(report.update, 4);
    EXPECT_EQ(report.loss, expected.loss);
    EXPECT_EQ(report.rate_factor, expected.rate_factor);
    EXPECT_TRUE(at::equal(second.weights(), first.weights())) << stages << " stages";
  }
}

TEST_F(TrainerTest, RefusesCountersThatNoRunCanHave) {
  Trainer trainer(tiny_recipe(), tokens_.file(), kVocabulary);
  Optimizer::State state = copy_of(trainer.optimizer_state());
  state.updates = -1;
  EXPECT_FALSE(trainer.restore(trainer.weights().clone(), state).ok());
}

TEST_F(TrainerTest, LeavesTheWeightsWhereTheLossIsNotFinite) {
  Trainer trainer(tiny_recipe(), tokens_.file(), kVocabulary);
  at::Tensor weights = trainer.weights().clone();
  weights.fill_(std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(trainer.restore(weights, copy_of(trainer.optimizer_state())).ok());
  const UpdateReport report = trainer.next_update();
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(trainer.updates_done(), 0);
  for (const auto& [name, buffer] : trainer.optimizer_state().buffers) {
    EXPECT_TRUE(at::equal(buffer, at::zeros_like(buffer))) << name;
  }
}

}  // namespace
}  // namespace leeway
