// Keys of a file that --set leaves without effect.
#include "config/idle_keys.h"

#include <gtest/gtest.h>

#include "config/print.h"
#include "config_testing.h"

namespace leeway {
namespace {

constexpr std::string_view kReplicas =
    "mesh.replicas = 2\naveraging.merge = 'fixed_lag'\naveraging.lag = 3\n";

std::vector<std::string> notes_of(std::string_view rest, const std::vector<std::string>& sets) {
  return loaded_from(rest, sets).notes;
}

TEST(IdleKeys, ARecipeForOneMethodRunsWithAnother) {
  const LoadedRecipe loaded = loaded_from(kReplicas, {"averaging.method=allreduce"});
  EXPECT_EQ(loaded.recipe.averaging.lag, 0);
  EXPECT_FALSE(loaded.is_given("averaging.merge"));
  EXPECT_EQ(loaded.notes,
            (std::vector<std::string>{
                "averaging.merge = \"fixed_lag\" (test.toml:3) is left out: it does not go with "
                "averaging.method = \"allreduce\" (--set)",
                "averaging.lag = 3.0 (test.toml:4) is left out: it does not go with "
                "averaging.method = \"allreduce\" (--set)"}));
  // What the run writes is a recipe again, with nothing to leave out.
  const auto again = parse_recipe(print_recipe(loaded), "config.toml", {});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(again->recipe == loaded.recipe);
  EXPECT_TRUE(again->notes.empty());
}

TEST(IdleKeys, EveryMethodRunsARecipeOfEveryOther) {
  const std::vector<std::pair<std::string, std::string>> recipes = {
      {"sparse", "fraction = 0.1\ngranularity = 8\nmerge = 'fixed_lag'\nlag = 2\nema_start = 0.4"},
      {"lowbit", "smoothing = 0.9\ngain = 1\nwire = 'ternary'\ndeadline_ms = 9"},
      {"allreduce", "wire = 'bf16'"},
      {"weights", "interval = 4"},
      {"diloco", "interval = 60\nouter_rate = 0.5\ncorrection = 'ema'\nema_end = 0.9\nlag = 7"},
      {"none", ""}};
  for (const auto& [method, rest] : recipes) {
    const std::string toml = "mesh.replicas = 2\n[averaging]\nmethod = '" + method + "'\n" + rest;
    for (const auto& [other, unused] : recipes) {
      const LoadedRecipe loaded = loaded_from(toml, {"averaging.method=" + other});
      const auto again = parse_recipe(print_recipe(loaded), "config.toml", {});
      ASSERT_TRUE(again.ok()) << method << ", " << other << ": " << again.error().message;
      EXPECT_TRUE(again->recipe == loaded.recipe) << method << ", " << other;
    }
  }
}

TEST(IdleKeys, TheSameForOtherChoices) {
  const std::string_view late = "mesh.stages = 2\npipeline.lookahead = 'tentative'\n";
  EXPECT_EQ(notes_of(late, {"pipeline.schedule=1f1b"}).size(), 1U);
  EXPECT_EQ(notes_of("mesh.stages = 2\npipeline.refresh = 3", {"pipeline.lookahead=none"}).size(),
            1U);
  EXPECT_EQ(notes_of("pipeline.refresh = 3", {"pipeline.schedule=gpipe"}).size(), 1U);
  EXPECT_EQ(notes_of("optimizer.nesterov = true", {"optimizer.name=adamw"}).size(), 1U);
  EXPECT_EQ(notes_of(late, {"optimizer.name=nadamw"}).size(), 1U);
  const std::string mean = "mesh.replicas = 2\noptimizer.second_moment = 'mean'";
  EXPECT_EQ(notes_of(mean, {"optimizer.name=sgd"}).size(), 1U);
  EXPECT_EQ(notes_of(mean, {"averaging.method=allreduce"}).size(), 1U);
  EXPECT_EQ(notes_of(mean, {"mesh.replicas=1"}).size(), 0U) << "it may be for several";
  EXPECT_EQ(notes_of("optimizer.clip_stages = 'whole'", {"pipeline.schedule=1f1b"}).size(), 1U);
  EXPECT_EQ(notes_of("optimizer.gradient_share = 0.1", {"pipeline.lookahead=matched"}).size(), 1U);
  EXPECT_EQ(notes_of("model.kv_heads = 2\nmodel.activation = 'swiglu'", {"model.architecture=gpt2"})
                .size(),
            2U);
  EXPECT_EQ(notes_of("mesh.stages = 2\nsim.speeds = [1, 2]", {"mesh.stages=1"}).size(), 1U);
  EXPECT_NE(error_of("mesh.stages = 2\nsim.speeds = [1, 2]", {"mesh.stages=1", "run.driver=sim"}),
            "no error");
}

TEST(IdleKeys, AnotherChoiceBringsItsOwnDefaults) {
  const LoadedRecipe loaded =
      loaded_from("mesh.stages = 2\npipeline.lookahead = 'tentative'", {"pipeline.schedule=1f1b"});
  EXPECT_TRUE(loaded.recipe == loaded_from("", {"mesh.stages=2", "pipeline.schedule=1f1b"}).recipe);
}

TEST(IdleKeys, AContradictionInTheFileOrInTheCommandStaysAnError) {
  const std::string lag = "mesh.replicas = 2\naveraging.lag = 3";
  EXPECT_NE(error_of(lag), "no error");                  // merges on arrival
  EXPECT_NE(error_of(lag, {"run.seed=3"}), "no error");  // --set has nothing to do with it
  EXPECT_NE(error_of(lag, {"averaging.method=sparse"}), "no error");
  EXPECT_NE(error_of(kReplicas, {"averaging.method=allreduce", "averaging.lag=2"}), "no error");
}

TEST(IdleKeys, OneReplicaIgnoresTheTableWithoutANote) {
  EXPECT_TRUE(notes_of(kReplicas, {"mesh.replicas=1"}).empty());
  EXPECT_TRUE(notes_of(kReplicas, {"averaging.method=none"}).empty());
}

}  // namespace
}  // namespace leeway
