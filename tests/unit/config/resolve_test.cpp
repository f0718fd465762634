// Defaults that follow from other keys, and values that do not fit each other.
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

TEST(Resolve, LeavesWhatWasGiven) {
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

TEST(Resolve, UpdateEveryIsTheNumberOfStages) {
  EXPECT_EQ(loaded_from("").recipe.pipeline.update_every, 1);
  EXPECT_EQ(loaded_from("mesh.stages = 4").recipe.pipeline.update_every, 4);
  EXPECT_EQ(
      loaded_from("mesh.stages = 4\npipeline.update_every = 'auto'").recipe.pipeline.update_every,
      4);
}

TEST(Resolve, TokensAreRoundedUpToUpdates) {
  const std::string shape = "data.batch = 16\nmodel.context = 128\n";  // 2048 tokens an update
  EXPECT_EQ(loaded_from(shape + "run.tokens = 4096").recipe.run.updates, 2);
  EXPECT_EQ(loaded_from(shape + "run.tokens = 4097").recipe.run.updates, 3);
  EXPECT_EQ(loaded_from(shape + "run.tokens = 1").recipe.run.updates, 1);
  EXPECT_EQ(loaded_from("run.tokens = 0\nrun.updates = 7").recipe.run.updates, 7);
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

struct Misfit {
  std::vector<std::string> sets;
  std::string message;
};

class Together : public testing::TestWithParam<Misfit> {};

TEST_P(Together, MisfitsAreNamed) { EXPECT_EQ(error_of("", GetParam().sets), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Model, Together,
    testing::Values(
        Misfit{{"model.width=100", "model.heads=3"},
               "model.width = 100 (--set) is not a multiple of model.heads = 3 (--set): change one "
               "of them"},
        Misfit{{"model.kv_heads=3"},
               "model.heads = 4 (default) is not a multiple of model.kv_heads = 3 (--set): each "
               "key and value head serves the same number of heads"},
        Misfit{{"model.architecture=gpt2", "model.kv_heads=2"},
               "model.kv_heads = 2 (--set) differs from model.heads = 4 (default), but "
               "model.architecture = \"gpt2\" (--set) has no grouped queries: leave model.kv_heads "
               "out"},
        Misfit{{"model.width=12"},
               "model.width = 12 (--set) over model.heads = 4 (default) leaves 3 numbers a head, "
               "but llama's rotary positions need an even number: change one of them"},
        Misfit{{"model.activation=gelu"},
               "model.activation = \"gelu\" (--set) does not go with model.architecture = "
               "\"llama\" (default): choose \"swiglu\""},
        Misfit{{"model.activation=swiglu", "model.architecture=gpt2"},
               "model.activation = \"swiglu\" (--set) does not go with model.architecture = "
               "\"gpt2\" (--set): choose \"gelu\" or \"relu\""},
        Misfit{{"model.bias=true"},
               "model.bias = true (--set) does not go with model.architecture = \"llama\" "
               "(default), which has no biases: leave model.bias out"}));

INSTANTIATE_TEST_SUITE_P(
    Rest, Together,
    testing::Values(
        Misfit{{"run.updates=5", "run.tokens=6"},
               "run.updates = 5 (--set) and run.tokens = 6 (--set) both set the length of the run: "
               "keep one of them"},
        Misfit{{"run.precision=fp64", "run.device=cuda"},
               "run.precision = \"fp64\" (--set) does not go with run.device = \"cuda\" (--set): "
               "fp64 is for comparisons on the cpu"},
        Misfit{{"optimizer.warmup=2000"},
               "optimizer.warmup = 2000 (--set) is more than run.updates = 1000 (default): shorten "
               "the warm-up"},
        Misfit{{"optimizer.warmup=3", "run.tokens=4096"},
               "optimizer.warmup = 3 (--set) is more than the 2 updates of run.tokens = 4096 "
               "(--set): shorten the warm-up"},
        Misfit{{"optimizer.name=adamw", "optimizer.nesterov=true"},
               "optimizer.nesterov = true (--set) does not go with optimizer.name = \"adamw\" "
               "(--set): optimizer.name = \"nadamw\" is that form of AdamW"},
        Misfit{{"optimizer.name=nadamw", "optimizer.nesterov=false"},
               "optimizer.nesterov = false (--set) does not go with optimizer.name = \"nadamw\" "
               "(--set): optimizer.name = \"adamw\" is the form without it"},
        Misfit{{"mesh.stages=5"},
               "model.layers = 4 (default) is less than mesh.stages = 5 (--set): every stage needs "
               "a layer"},
        Misfit{{"pipeline.update_every=3"},
               "data.batch = 16 (default) is not a multiple of pipeline.update_every = 3 (--set): "
               "change one of them"}));

TEST(Checks, NameTheLineOfTheFile) {
  EXPECT_EQ(error_of("[model]\nwidth = 100\nheads = 3"),
            "model.width = 100 (test.toml:3) is not a multiple of model.heads = 3 (test.toml:4): "
            "change one of them");
  EXPECT_EQ(error_of("run.updates = 5\nrun.tokens = 6"),
            "run.updates = 5 (test.toml:2) and run.tokens = 6 (test.toml:3) both set the length of "
            "the run: keep one of them");
}

// What looks like the misfits above and is none.
TEST(Checks, LetThroughWhatFits) {
  loaded_from("", {"model.kv_heads=2"});
  loaded_from("", {"model.architecture=gpt2", "model.width=12"});
  loaded_from("", {"model.architecture=gpt2", "model.activation=relu", "model.bias=false"});
  loaded_from("", {"model.bias=false"});
  loaded_from("", {"run.precision=fp64"});
  loaded_from("", {"run.precision=bf16", "run.device=cuda:1"});
  loaded_from("", {"optimizer.warmup=1000"});
  loaded_from("", {"optimizer.name=sgd", "optimizer.nesterov=false"});
  loaded_from("", {"mesh.stages=4"});
}

}  // namespace
}  // namespace leeway
