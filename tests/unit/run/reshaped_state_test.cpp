#include "run/reshaped_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "averaging/newcomer.h"
#include "config/load.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 8;

Recipe recipe_for(int64_t stages, int64_t replicas, std::vector<std::string> sets = {}) {
  sets.push_back("mesh.stages=" + std::to_string(stages));
  sets.push_back("mesh.replicas=" + std::to_string(replicas));
  constexpr const char* kText =
      "data.train = 'x'\ndata.batch = 12\n[model]\nlayers = 4\nwidth = 8\nheads = 1\ncontext = 4\n";
  const auto loaded = parse_recipe(kText, "test", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded->recipe;
}

at::Tensor& buffer(ReplicaState& replica, const std::string& name) {
  for (auto& [own, tensor] : replica.optimizer.buffers) {
    if (own == name) return tensor;
  }
  replica.optimizer.buffers.emplace_back(name, at::full_like(replica.weights, 0));
  return replica.optimizer.buffers.back().second;
}

bool has(const ReplicaState& replica, const std::string& name) {
  return std::ranges::any_of(replica.optimizer.buffers,
                             [&](const auto& named) { return named.first == name; });
}

// Replica r has the weights r + 1 and the updates given; its rounds are 10 r + stage.
SavedRun saved_on(int64_t stages, const std::vector<int64_t>& updates, int64_t lanes = 1) {
  SavedRun saved;
  saved.shape = stage_options(recipe_for(1, 1), kVocabulary).front().shape;
  const int64_t count = parameter_count(slice_layout(saved.shape, whole_model(saved.shape)));
  saved.counters.update = *std::ranges::min_element(updates);
  for (size_t r = 0; r < updates.size(); ++r) {
    ReplicaState replica = {.weights = at::full({count}, static_cast<double>(r + 1)),
                            .optimizer = {}};
    replica.optimizer.updates = updates[r];
    buffer(replica, "momentum").fill_(0.5 * static_cast<double>(r));
    for (int64_t s = 0; s < stages; ++s) {
      replica.rounds.emplace_back(static_cast<size_t>(lanes), 10 * static_cast<int64_t>(r) + s);
    }
    saved.state.replicas.push_back(std::move(replica));
  }
  saved.state.weights = saved.state.replicas.front().weights;
  return saved;
}

std::vector<std::string> reshaped(SavedRun& saved, const Recipe& recipe) {
  const auto said = reshape(saved, recipe);
  EXPECT_TRUE(said.ok()) << said.error().message;
  return said.ok() ? *said : std::vector<std::string>();
}

double value_of(const at::Tensor& tensor) { return tensor[0].item<double>(); }

TEST(Reshape, LeavesARunOnItsOwnMeshAlone) {
  SavedRun saved = saved_on(2, {7, 7});
  EXPECT_TRUE(reshaped(saved, recipe_for(2, 2)).empty());
  EXPECT_EQ(saved.counters.shifted_sequences, 0);
  EXPECT_FALSE(has(saved.state.replicas[0], kEmaBuffer));
}

TEST(Reshape, KeepsTheFirstReplicasAndTheirMean) {
  SavedRun saved = saved_on(2, {5, 5, 5});
  const auto said = reshaped(saved, recipe_for(2, 2));
  EXPECT_THAT(said, ElementsAre("replica 2 leaves: its weights and moments are dropped",
                                "the data goes on at token 720: none is skipped, none is read "
                                "twice"));
  ASSERT_EQ(saved.state.replicas.size(), 2U);
  EXPECT_EQ(value_of(saved.state.weights), 1.5);
  EXPECT_EQ(saved.counters.shifted_sequences, 5 * 12 * (3 - 2));
}

TEST(Reshape, CopiesReplicasInTurn) {
  SavedRun saved = saved_on(2, {5, 5});
  const auto said = reshaped(saved, recipe_for(2, 5));
  EXPECT_THAT(said, ElementsAre("replica 2 begins as a copy of replica 0",
                                "replica 3 begins as a copy of replica 1",
                                "replica 4 begins as a copy of replica 0", HasSubstr("token 480")));
  ASSERT_EQ(saved.state.replicas.size(), 5U);
  EXPECT_EQ(value_of(saved.state.replicas[3].weights), 2);
  EXPECT_EQ(value_of(buffer(saved.state.replicas[3], "momentum")), 0.5);
  EXPECT_THAT(saved.state.replicas[3].rounds, ElementsAre(ElementsAre(10), ElementsAre(11)));
  EXPECT_EQ(saved.counters.shifted_sequences, 5 * 12 * (2 - 5));
}

TEST(Reshape, ASingleReplicaLearnsToAverageAndForgetsIt) {
  SavedRun saved = saved_on(2, {60}, /*lanes=*/0);
  reshaped(saved, recipe_for(2, 2, {"averaging.interval=3"}));
  for (ReplicaState& replica : saved.state.replicas) {
    EXPECT_EQ(value_of(buffer(replica, kAnchorBuffer)), 1);
    EXPECT_TRUE(has(replica, kEmaBuffer) && has(replica, kOuterBuffer));
    EXPECT_THAT(replica.rounds, ElementsAre(ElementsAre(20), ElementsAre(20)));
  }
  reshaped(saved, recipe_for(2, 1));
  EXPECT_FALSE(has(saved.state.replicas[0], kAnchorBuffer));
  EXPECT_THAT(saved.state.replicas[0].rounds, ElementsAre(ElementsAre(), ElementsAre()));
  EXPECT_EQ(saved.counters.shifted_sequences, 0);
  EXPECT_EQ(saved.counters.shifted_allreduce_bytes, 0);
}

// Stage 0 of two has layers 0 and 1, and so has stage 0 of three or four only by accident.
TEST(Reshape, RoundsOfStagesThatAreCutAnewGoOnFromTheLargest) {
  SavedRun saved = saved_on(4, {5, 5});
  const auto said = reshaped(saved, recipe_for(2, 2));
  EXPECT_THAT(said, ElementsAre(HasSubstr("cut into 2 stages in place of 4")));
  for (const ReplicaState& replica : saved.state.replicas) {
    EXPECT_THAT(replica.rounds, ElementsAre(ElementsAre(13), ElementsAre(13)));
  }
  const auto before = cut_into_stages(saved.shape, 2), after = cut_into_stages(saved.shape, 3);
  const bool stays = before[0].layers == after[0].layers;
  saved = saved_on(2, {5, 5});
  reshaped(saved, recipe_for(3, 2, {"pipeline.update_every=3"}));
  EXPECT_EQ(saved.state.replicas[0].rounds[0][0], stays ? 0 : 11);
  EXPECT_EQ(saved.state.replicas[0].rounds[2][0], 11);
}

TEST(Reshape, TheDataGoesOnFromTheSlowestReplica) {
  SavedRun saved = saved_on(2, {9, 5});
  const auto one = reshaped(saved, recipe_for(2, 1));
  EXPECT_THAT(one.back(),
              "the data goes on at token 480; up to 192 tokens that faster replicas "
              "have read are read again, 0 are skipped");
  EXPECT_EQ(saved.counters.update, 9);
  EXPECT_EQ(9 * 12 * 1 + saved.counters.shifted_sequences, 5 * 12 * 2);

  saved = saved_on(2, {9, 5});
  const auto three = reshaped(saved, recipe_for(2, 3));
  EXPECT_THAT(three.back(), HasSubstr("192 tokens that faster replicas have read are read again, "
                                      "384 are skipped"));
  EXPECT_EQ(saved.counters.update, 5);

  saved = saved_on(2, {5, 5});
  EXPECT_THAT(reshaped(saved, recipe_for(2, 3, {"data.own_parts=true"})).back(),
              HasSubstr("another part of the text"));
}

// Every weight's residual ends up with exactly one owner, and a copy's steps are not sent twice.
TEST(Reshape, LowbitHandsResidualsToTheNewOwners) {
  for (const int64_t stages : {2, 4}) {
    SavedRun saved = saved_on(2, {5, 5});
    const int64_t count = saved.state.weights.numel();
    auto& replicas = saved.state.replicas;
    for (ReplicaState& replica : replicas) buffer(replica, kCommonBuffer).fill_(0.75);
    buffer(replicas[0], kResidualBuffer).narrow(0, 0, count / 2).fill_(3);
    buffer(replicas[1], kResidualBuffer).narrow(0, count / 2, count - count / 2).fill_(4);
    const at::Tensor all =
        replicas[0].optimizer.buffers.back().second + replicas[1].optimizer.buffers.back().second;
    reshaped(saved, recipe_for(stages, 3, {"averaging.method=lowbit"}));
    ASSERT_EQ(replicas.size(), 3U);
    at::Tensor sum = at::zeros({count}), owners = at::zeros({count});
    for (ReplicaState& replica : replicas) {
      const at::Tensor own = buffer(replica, kResidualBuffer);
      sum += own;
      owners += own != 0;
    }
    EXPECT_TRUE(at::equal(sum, all));
    EXPECT_TRUE(at::equal(owners, at::ones({count})));
    EXPECT_EQ(value_of(replicas[2].weights), 0.75);
  }
}

TEST(Reshape, ALookAheadKeepsItsLastUpdateOrBeginsWithoutOne) {
  const std::vector<std::string> predict = {"pipeline.lookahead=predict",
                                            "pipeline.update_every=1"};
  SavedRun saved = saved_on(1, {5}, /*lanes=*/0);
  reshaped(saved, recipe_for(2, 1, predict));
  ASSERT_TRUE(has(saved.state.replicas[0], "last_update"));
  EXPECT_EQ(value_of(buffer(saved.state.replicas[0], "last_update")), 0);
  reshaped(saved, recipe_for(1, 1, predict));
  EXPECT_FALSE(has(saved.state.replicas[0], "last_update"));
}

TEST(Reshape, RefusesRoundsThatDoNotFitTogether) {
  SavedRun saved = saved_on(2, {5, 5});
  saved.state.replicas[1].rounds.pop_back();
  EXPECT_FALSE(reshape(saved, recipe_for(2, 3)).ok());
  saved = saved_on(9, {5, 5});  // more stages than layers
  EXPECT_FALSE(reshape(saved, recipe_for(2, 3)).ok());
  saved = saved_on(2, {5, 5});
  for (ReplicaState& replica : saved.state.replicas) replica.rounds.clear();
  EXPECT_FALSE(reshape(saved, recipe_for(2, 3)).ok());
}

}  // namespace
}  // namespace leeway
