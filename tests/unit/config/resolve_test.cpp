// Defaults that depend on other keys.
#include <gtest/gtest.h>

#include "config/load.h"
#include "config_testing.h"

namespace leeway {
namespace {

TEST(Resolve, ModelFollowsTheArchitecture) {
  const ModelOptions llama = loaded_from("model.width = 128").recipe.model;
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.hidden, 352);  // 341.3 rounded up to a multiple of 32
  EXPECT_EQ(llama.activation, Activation::kSwiglu);
  EXPECT_FALSE(llama.bias);
  const ModelOptions gpt2 = loaded_from("[model]\narchitecture = 'gpt2'\nheads = 8").recipe.model;
  EXPECT_EQ(gpt2.kv_heads, 8);
  EXPECT_EQ(gpt2.hidden, 512);
  EXPECT_EQ(gpt2.activation, Activation::kGelu);
  EXPECT_TRUE(gpt2.bias);
}

TEST(Resolve, HiddenOfLlamaIsRoundedUpOnce) {
  EXPECT_EQ(loaded_from("model.width = 24").recipe.model.hidden, 64);    // exactly 64
  EXPECT_EQ(loaded_from("model.width = 16").recipe.model.hidden, 64);    // 42.7
  EXPECT_EQ(loaded_from("model.width = 96").recipe.model.hidden, 256);   // exactly 256
  EXPECT_EQ(loaded_from("model.width = 104").recipe.model.hidden, 288);  // 277.3
}

TEST(Resolve, OptimizerFollowsItsName) {
  struct Expected {
    std::string name;
    double beta1;
    double beta2;
    bool nesterov;
  };
  const Expected all[] = {{"muon", 0.95, 0.99, true},
                          {"adamw", 0.9, 0.99, false},
                          {"nadamw", 0.99, 0.999, true},
                          {"sgd", 0.9, 0.99, true}};
  for (const Expected& expected : all) {
    const auto optimizer = loaded_from("", {"optimizer.name=" + expected.name}).recipe.optimizer;
    EXPECT_EQ(optimizer.beta1, expected.beta1) << expected.name;
    EXPECT_EQ(optimizer.beta2, expected.beta2) << expected.name;
    EXPECT_EQ(optimizer.nesterov, expected.nesterov) << expected.name;
  }
}

TEST(Resolve, LookaheadFollowsTheOptimizerAndTheDelays) {
  const auto lookahead = [](const std::vector<std::string>& sets) {
    return loaded_from("mesh.stages = 4", sets).recipe.pipeline.lookahead;
  };
  for (const std::string name : {"muon", "adamw", "sgd"}) {
    EXPECT_EQ(lookahead({"optimizer.name=" + name}), Lookahead::kTentative);
    EXPECT_EQ(lookahead({"optimizer.name=" + name, "pipeline.update_every=2"}),
              Lookahead::kMatched);
  }
  EXPECT_EQ(lookahead({"optimizer.name=nadamw"}), Lookahead::kNesterov);
  // If every update flushes, no gradient is late, however few microbatches an update has.
  EXPECT_EQ(lookahead({"pipeline.update_every=2", "pipeline.schedule=1f1b"}), Lookahead::kNone);
  EXPECT_EQ(lookahead({"pipeline.schedule=gpipe"}), Lookahead::kNone);
  EXPECT_EQ(lookahead({"pipeline.schedule=gpipe", "optimizer.name=nadamw"}), Lookahead::kNesterov);
}

TEST(Resolve, TentativeHasItsShareAndItsGuesses) {
  const Recipe late = loaded_from("mesh.stages = 4").recipe;
  EXPECT_EQ(late.optimizer.gradient_share, 0.2);
  EXPECT_EQ(late.pipeline.refresh, 2);
  EXPECT_LT(loaded_from("").recipe.optimizer.gradient_share, 0);  // one stage: never late
  const Recipe none = loaded_from("mesh.stages = 4\npipeline.lookahead = 'none'").recipe;
  EXPECT_LT(none.optimizer.gradient_share, 0);
  EXPECT_EQ(none.pipeline.refresh, 0);
}

TEST(Resolve, AdamWWithLookaheadNesterovIsNAdamW) {
  const auto adamw =
      loaded_from("", {"optimizer.name=adamw", "pipeline.lookahead=nesterov"}).recipe.optimizer;
  EXPECT_EQ(adamw.beta1, 0.99);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_TRUE(adamw.nesterov);
  const auto muon = loaded_from("", {"pipeline.lookahead=nesterov"}).recipe.optimizer;
  EXPECT_EQ(muon.beta1, 0.95);
  EXPECT_EQ(muon.beta2, 0.99);
  EXPECT_TRUE(muon.nesterov);
}

TEST(Resolve, TheHorizonFollowsTheLookahead) {
  const auto options = [](const std::string& lookahead) {
    return loaded_from("run.updates = 600", {"pipeline.lookahead=" + lookahead}).recipe.pipeline;
  };
  EXPECT_EQ(options("predict").horizon, 1.0);
  EXPECT_LT(options("matched").horizon, 0);
  EXPECT_LT(options("none").horizon, 0);
}

TEST(Resolve, LeavesGivenValues) {
  const Recipe recipe = loaded_from("", {"model.kv_heads=2", "model.hidden=100",
                                         "optimizer.beta1=0.5", "optimizer.beta2=0.6",
                                         "optimizer.nesterov=false", "pipeline.update_every=8"})
                            .recipe;
  EXPECT_EQ(recipe.model.kv_heads, 2);
  EXPECT_EQ(recipe.model.hidden, 100);
  EXPECT_EQ(recipe.optimizer.beta1, 0.5);
  EXPECT_EQ(recipe.optimizer.beta2, 0.6);
  EXPECT_FALSE(recipe.optimizer.nesterov);
  EXPECT_EQ(recipe.pipeline.update_every, 8);
}

TEST(Resolve, UpdateEveryMakesNoGradientMoreThanOneUpdateLate) {
  EXPECT_EQ(loaded_from("").recipe.pipeline.update_every, 1);
  EXPECT_EQ(loaded_from("mesh.stages = 4").recipe.pipeline.update_every, 4);
  EXPECT_EQ(
      loaded_from("mesh.stages = 4\npipeline.update_every = 'auto'").recipe.pipeline.update_every,
      4);
  const auto update_every = [](const std::string& rest) {
    return loaded_from("data.batch = 140\nmesh.stages = 4\n" + rest).recipe.pipeline.update_every;
  };
  EXPECT_EQ(update_every("pipeline.extra_per_hop = 1"), 7);
  EXPECT_EQ(update_every("pipeline.extra_per_hop = 2"), 10);
  EXPECT_EQ(update_every("pipeline.schedule = 'gpipe'"), 4);
}

TEST(Resolve, TokensAreRoundedUpToUpdates) {
  const std::string shape = "data.batch = 16\nmodel.context = 128\n";  // 2048 tokens an update
  EXPECT_EQ(loaded_from(shape + "run.tokens = 4096").recipe.run.updates, 2);
  EXPECT_EQ(loaded_from(shape + "run.tokens = 4097").recipe.run.updates, 3);
  EXPECT_EQ(loaded_from(shape + "run.tokens = 1").recipe.run.updates, 1);
  EXPECT_EQ(loaded_from("run.tokens = 0\nrun.updates = 7").recipe.run.updates, 7);
  const std::string three = shape + "mesh.replicas = 3\n";  // 2048 for each of them
  EXPECT_EQ(loaded_from(three + "run.tokens = 6144").recipe.run.updates, 1);
  EXPECT_EQ(loaded_from(three + "run.tokens = 6145").recipe.run.updates, 2);
}

TEST(Resolve, LengthAfterSetWinsOverTheFile) {
  const Recipe updates = loaded_from("run.tokens = 4096", {"run.updates=50"}).recipe;
  EXPECT_EQ(updates.run.updates, 50);
  EXPECT_EQ(updates.run.tokens, 0);
  const LoadedRecipe tokens = loaded_from("run.updates = 50", {"run.tokens=4096"});
  EXPECT_EQ(tokens.recipe.run.updates, 2);
  EXPECT_FALSE(tokens.is_given("run.updates"));
  EXPECT_EQ(loaded_from("run.updates = 50", {"run.tokens=0"}).recipe.run.updates, 50);
}

}  // namespace
}  // namespace leeway
