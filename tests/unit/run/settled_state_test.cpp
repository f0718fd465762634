#include "run/settled_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "averaging/newcomer.h"
#include "averaging/wire.h"
#include "config/load.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kVocabulary = 8;

Recipe recipe_of(int64_t replicas) {
  constexpr const char* kText =
      "data.train = 'x'\ndata.batch = 12\n[model]\nlayers = 4\nwidth = 8\nheads = 1\ncontext = 4\n"
      "[averaging]\nmethod = 'lowbit'\nsmoothing = 0.0\ngain = 0.0\n";
  const auto loaded =
      parse_recipe(kText, "test", {"mesh.stages=1", "mesh.replicas=" + std::to_string(replicas)});
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded->recipe;
}

at::Tensor& buffer(ReplicaState& replica, const std::string& name) {
  for (auto& [own, tensor] : replica.optimizer.buffers) {
    if (own == name) return tensor;
  }
  replica.optimizer.buffers.emplace_back(name, at::zeros_like(replica.weights));
  return replica.optimizer.buffers.back().second;
}

// Two replicas on one stage; replica r has applied the answers given, of two chunks.
SavedRun saved_after(const std::vector<std::vector<int64_t>>& answers) {
  SavedRun saved;
  saved.shape = stage_options(recipe_of(2), kVocabulary).front().shape;
  const int64_t count = parameter_count(slice_layout(saved.shape, whole_model(saved.shape)));
  const int64_t half = count / 2;
  for (const std::vector<int64_t>& numbers : answers) {
    ReplicaState replica = {.weights = at::randn({count}, at::kDouble), .optimizer = {}};
    for (const char* name : {kCommonBuffer, kFlightBuffer, kResidualBuffer}) {
      buffer(replica, name).copy_(at::randn({count}, at::kDouble));
    }
    replica.rounds = {{7}};
    replica.chunks = {{{.values = half, .answer = numbers[0], .chain = 1},
                       {.values = count - half, .answer = numbers[1], .chain = 2}}};
    replica.sent = {{}};
    saved.state.replicas.push_back(std::move(replica));
  }
  buffer(saved.state.replicas[0], kResidualBuffer).narrow(0, half, count - half).zero_();
  buffer(saved.state.replicas[1], kResidualBuffer).narrow(0, 0, half).zero_();
  saved.state.weights = saved.state.replicas.front().weights;
  return saved;
}

TEST(Settle, LeavesReplicasWithTheSameAnswersAlone) {
  SavedRun saved = saved_after({{5, 6}, {5, 6}});
  auto& replicas = saved.state.replicas;
  buffer(replicas[1], kCommonBuffer).copy_(buffer(replicas[0], kCommonBuffer));
  const at::Tensor weights = replicas[1].weights.clone();
  const at::Tensor residual = buffer(replicas[1], kResidualBuffer).clone();
  EXPECT_THAT(settle(saved, recipe_of(2)).value(), IsEmpty());
  EXPECT_TRUE(at::equal(replicas[1].weights, weights));
  EXPECT_TRUE(at::equal(buffer(replicas[1], kResidualBuffer), residual));
  EXPECT_EQ(buffer(replicas[1], kFlightBuffer).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(replicas[1].chunks.front().front().answer, 5);
}

// One that was behind takes the newest model. Of what it had under way, that counts no more which
// the model has in it.
TEST(Settle, OneThatWasBehindCatchesUpAndNothingCountsTwice) {
  SavedRun saved = saved_after({{9, 4}, {5, 4}});
  auto& replicas = saved.state.replicas;
  const int64_t half = replicas[0].chunks[0][0].values;
  const auto chunk = [&](const at::Tensor& flat) { return flat.narrow(0, 0, half).clone(); };
  const auto rest = [&](const at::Tensor& flat) { return flat.narrow(0, half, half).clone(); };
  buffer(replicas[1], kCommonBuffer)
      .narrow(0, half, half)
      .copy_(rest(buffer(replicas[0], kCommonBuffer)));
  for (const int64_t number : {3, 4}) replicas[0].chunks[0][0].count({{1}, number});
  std::vector<at::Tensor> sent;
  for (const int64_t number : {4, 5}) {
    const at::Tensor steps = at::randn({half}, at::kDouble);
    sent.push_back(encode(WireFormat::kTernary, steps, {}));
    replicas[1].sent[0].push_back({.chunk = 0, .number = number, .payload = sent.back()});
  }
  const at::Tensor newest = chunk(buffer(replicas[0], kCommonBuffer));
  const at::Tensor own = chunk(replicas[1].weights) - chunk(buffer(replicas[1], kCommonBuffer)) -
                         decode(WireFormat::kTernary, sent.front(), half, at::kDouble);
  const at::Tensor untouched = rest(replicas[1].weights);
  const at::Tensor ahead = replicas[0].weights.clone();

  EXPECT_THAT(settle(saved, recipe_of(2)).value(), IsEmpty())
      << "the owner of the chunk was not behind";
  EXPECT_TRUE(at::equal(chunk(buffer(replicas[1], kCommonBuffer)), newest));
  EXPECT_TRUE(at::allclose(chunk(replicas[1].weights), newest + own, 0, 1e-14));
  EXPECT_TRUE(at::equal(rest(replicas[1].weights), untouched));
  EXPECT_TRUE(at::equal(replicas[0].weights, ahead));
  EXPECT_EQ(replicas[1].chunks[0][0], replicas[0].chunks[0][0]);
  EXPECT_THAT(replicas[1].sent, IsEmpty());
}

TEST(Settle, AnOwnerThatSavedTooEarlyHasLostWhatItHadLeftOver) {
  SavedRun saved = saved_after({{5, 4}, {9, 4}});  // replica 0 owns the first chunk
  auto& replicas = saved.state.replicas;
  EXPECT_THAT(settle(saved, recipe_of(2)).value(),
              ElementsAre(HasSubstr("1 chunk of the common model")));
  const int64_t half = replicas[0].chunks[0][0].values;
  EXPECT_EQ(buffer(replicas[0], kResidualBuffer).narrow(0, 0, half).abs().sum().item<double>(), 0);
  EXPECT_NE(buffer(replicas[1], kResidualBuffer).narrow(0, half, half).abs().sum().item<double>(),
            0);
}

TEST(Settle, WhatCannotHaveBeenSentIsNamed) {
  for (const at::Tensor& payload : {at::zeros({3}, at::kByte), at::zeros({3}, at::kDouble)}) {
    SavedRun saved = saved_after({{9, 4}, {5, 4}});
    saved.state.replicas[1].sent[0].push_back({.chunk = 0, .number = 6, .payload = payload});
    const auto settled = settle(saved, recipe_of(2));
    ASSERT_FALSE(settled.ok());
    EXPECT_THAT(settled.error().message, HasSubstr("number 6 of stage 0, chunk 0"));
  }
}

TEST(Settle, AClonedReplicaHasNoStepsOfItsOwn) {
  SavedRun saved = saved_after({{5, 4}, {5, 4}});
  auto& replicas = saved.state.replicas;
  replicas[1] = replicas[0];
  saved.cloned = {1};
  ASSERT_TRUE(settle(saved, recipe_of(2)).ok());
  EXPECT_TRUE(at::equal(replicas[1].weights, buffer(replicas[0], kCommonBuffer)));
  EXPECT_NE(replicas[1].weights.data_ptr(), replicas[0].weights.data_ptr());
  EXPECT_FALSE(at::equal(replicas[0].weights, replicas[1].weights));
}

// An earlier version kept what was unsent beside the weights, and its replicas were not the same.
TEST(Settle, AnEarlierVersionsReplicasGetOneModel) {
  SavedRun saved = saved_after({{0, 0}, {0, 0}});
  std::vector<at::Tensor> models;
  for (ReplicaState& replica : saved.state.replicas) {
    replica.chunks = {{}};
    replica.optimizer.buffers.clear();
    buffer(replica, "averaging_unsent").copy_(at::randn_like(replica.weights));
    buffer(replica, kResidualBuffer).fill_(0.25);
    models.push_back(replica.weights - buffer(replica, "averaging_unsent"));
  }
  const at::Tensor weights = saved.state.replicas[1].weights.clone();
  ASSERT_TRUE(settle(saved, recipe_of(2)).ok());
  for (ReplicaState& replica : saved.state.replicas) {
    ASSERT_EQ(replica.optimizer.buffers.size(), 3U);
    EXPECT_TRUE(at::allclose(buffer(replica, kCommonBuffer), (models[0] + models[1]) / 2));
  }
  EXPECT_TRUE(at::equal(saved.state.replicas[1].weights, weights)) << "what it has done is kept";
}

}  // namespace
}  // namespace leeway
