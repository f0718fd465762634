#include "config/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "config/keys.h"
#include "config/words.h"
#include "config_testing.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

Recipe parsed_again(const LoadedRecipe& loaded) {
  auto again = parse_recipe(print_recipe(loaded), "printed.toml", {});
  EXPECT_TRUE(again.ok()) << again.error().message;
  return again.ok() ? again->recipe : Recipe{};
}

TEST(Print, SaysWhereEachValueCameFrom) {
  const std::string text = print_recipe(loaded_from("run.seed = 9", {"model.width=64"}));
  EXPECT_THAT(text, HasSubstr("\n[run]\nupdates = 1000               # default\n"
                              "# tokens = 0                 # run.updates is used\n"
                              "seed = 9                     # test.toml:2\n"));
  EXPECT_THAT(text, HasSubstr("\nwidth = 64                   # --set\n"));
  EXPECT_THAT(text, HasSubstr("\nhidden = 192                 # default\n"));
  EXPECT_THAT(text, HasSubstr("\ntrain = [\"text.txt\"]         # test.toml:1\n"));
}

TEST(Print, HasEveryKey) {
  const std::string text = print_recipe(loaded_from(""));
  for (const Key& key : keys()) {
    EXPECT_THAT(text, HasSubstr(std::string(key.name()) + " = ")) << key.path;
  }
}

TEST(Print, KeepsTheKeyThatSetsTheLength) {
  const LoadedRecipe loaded = loaded_from("", {"run.tokens=4096"});
  EXPECT_THAT(print_recipe(loaded), HasSubstr("# updates = 2                # run.tokens is used\n"
                                              "tokens = 4096                # --set\n"));
  EXPECT_EQ(parsed_again(loaded), loaded.recipe);
}

TEST(Print, ParsesBackForEveryOptimizerAndArchitecture) {
  for (const std::string optimizer : {"muon", "adamw", "nadamw", "sgd"}) {
    for (const std::string architecture : {"llama", "gpt2"}) {
      const LoadedRecipe loaded =
          loaded_from("", {"optimizer.name=" + optimizer, "model.architecture=" + architecture});
      EXPECT_EQ(parsed_again(loaded), loaded.recipe) << optimizer << " " << architecture;
    }
  }
}

TEST(Print, ParsesBackForEveryLookaheadAndOptimizer) {
  for (const std::string optimizer : {"muon", "adamw", "sgd"}) {
    for (const std::string_view lookahead : kWords<Lookahead>) {
      const LoadedRecipe loaded = loaded_from(
          "mesh.stages = 4",
          {"optimizer.name=" + optimizer, "pipeline.lookahead=" + std::string(lookahead)});
      EXPECT_EQ(parsed_again(loaded), loaded.recipe) << optimizer << " " << lookahead;
    }
  }
}

TEST(Print, ParsesBackForEverySchedule) {
  for (const std::string_view schedule : kWords<PipelineSchedule>) {
    for (const std::string optimizer : {"muon", "nadamw"}) {
      const LoadedRecipe loaded =
          loaded_from("mesh.stages = 4\noptimizer.name = '" + optimizer + "'",
                      {"pipeline.schedule=" + std::string(schedule)});
      EXPECT_EQ(parsed_again(loaded), loaded.recipe) << schedule << " " << optimizer;
    }
  }
}

TEST(Print, ParsesBackForEveryMethodOfAveraging) {
  for (const std::string_view method : kWords<AveragingMethod>) {
    for (const std::string replicas : {"1", "4"}) {
      const LoadedRecipe loaded =
          loaded_from("mesh.replicas = " + replicas, {"averaging.method=" + std::string(method)});
      EXPECT_EQ(parsed_again(loaded), loaded.recipe) << method << " " << replicas;
    }
  }
  const LoadedRecipe alone = loaded_from("averaging.lag = 3\naveraging.merge = 'fixed_lag'");
  EXPECT_EQ(parsed_again(alone), alone.recipe);
}

// As keys they would be rejected.
TEST(Print, MakesCommentsOfKeysThatTheAveragingIgnores) {
  const std::string sparse = print_recipe(loaded_from("mesh.replicas = 2"));
  EXPECT_THAT(sparse, HasSubstr("\nmethod = \"sparse\"            # default\n"
                                "fraction = 0.05              # default\n"));
  EXPECT_THAT(sparse,
              HasSubstr("\n# lag = 1.0                  # idle: averaging.merge = \"on_arrival\"\n"
                        "deadline_ms = \"auto\"         # default\n"));
  EXPECT_THAT(sparse,
              HasSubstr("\n# gain = 0.0                 # idle: averaging.method = \"sparse\"\n"));
  const std::string fixed =
      print_recipe(loaded_from("mesh.replicas = 2\naveraging.merge = 'fixed_lag'"));
  EXPECT_THAT(
      fixed, HasSubstr("\nlag = 1.0                    # default\n"
                       "# deadline_ms = \"auto\"       # idle: averaging.merge = \"fixed_lag\"\n"));
  const std::string alone = print_recipe(loaded_from("", {"averaging.fraction=0.5"}));
  EXPECT_THAT(alone,
              HasSubstr("\nmethod = \"none\"              # default\n"
                        "# fraction = 1.0             # idle: averaging.method = \"none\"\n"));
}

TEST(Print, ParsesBackWithATableInsideATable) {
  const LoadedRecipe loaded = loaded_from(
      "network.listen = 'tcp://[::1]:9000'",
      {"run.driver=zmq", "network.heartbeat_ms=50", "network.emulate.bandwidth_mbit=12.5"});
  EXPECT_THAT(print_recipe(loaded), HasSubstr("\n[network.emulate]\n"
                                              "latency_ms = 0.0             # default\n"
                                              "bandwidth_mbit = 12.5        # --set\n"));
  EXPECT_EQ(parsed_again(loaded), loaded.recipe);
}

TEST(Print, SaysAutoIfNoOtherKeyDecides) {
  const std::string matched = print_recipe(loaded_from(""));
  EXPECT_THAT(matched, HasSubstr("\nhorizon = \"auto\"             # default\n"));
  const std::string predict = print_recipe(loaded_from("pipeline.lookahead = 'predict'"));
  EXPECT_THAT(predict, HasSubstr("\nhorizon = 1.0                # default\n"));
}

// File names are printed in comments, where a line break would start a key.
TEST(Print, SurvivesAStrangeFileName) {
  const auto loaded = parse_recipe(kSmallest, "a\nb = 1\xff.toml", {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(parsed_again(*loaded), loaded->recipe);
}

TEST(Documentation, HasEveryKeyOnItsOwnLine) {
  const std::string page = configuration_markdown();
  EXPECT_THAT(page, HasSubstr("\n| `width` | `128` | a whole number from 1 to 65536 | "));
  EXPECT_THAT(page, HasSubstr("\n| `kv_heads` | *`model.heads`* | a whole number from 1 to 4096, "
                              "or \"auto\" | "));
  EXPECT_THAT(page, HasSubstr("\n| `train` | none: required | "));
  EXPECT_THAT(page, Not(HasSubstr("| |")));
  for (const Key& key : keys()) {
    EXPECT_THAT(page, HasSubstr("\n| `" + std::string(key.name()) + "` | ")) << key.path;
  }
}

TEST(Documentation, CommittedPageIsTheGeneratedOne) {
  const auto committed = read_text("docs/configuration.md");
  ASSERT_TRUE(committed.ok()) << committed.error().message;
  EXPECT_TRUE(*committed == configuration_markdown())
      << "docs/configuration.md does not match the table of keys: run\n"
         "  build/leeway config keys > docs/configuration.md";
}

}  // namespace
}  // namespace leeway
