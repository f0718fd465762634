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
                              "# tokens = 0                 # run.updates counts\n"
                              "seed = 9                     # test.toml:2\n"));
  EXPECT_THAT(text, HasSubstr("\nwidth = 64                   # --set\n"));
  EXPECT_THAT(text, HasSubstr("\nhidden = 192                 # default\n"));
  EXPECT_THAT(text, HasSubstr("\ntrain = [\"text.txt\"]         # test.toml:1\n"));
}

TEST(Print, HoldsEveryKey) {
  const std::string text = print_recipe(loaded_from(""));
  for (const Key& key : keys()) {
    EXPECT_THAT(text, HasSubstr(std::string(key.name()) + " = ")) << key.path;
  }
}

TEST(Print, KeepsTheKeyThatSetsTheLength) {
  const LoadedRecipe loaded = loaded_from("", {"run.tokens=4096"});
  EXPECT_THAT(print_recipe(loaded), HasSubstr("# updates = 2                # run.tokens counts\n"
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

TEST(Print, SaysAutoWhereNoOtherKeyDecides) {
  const std::string matched = print_recipe(loaded_from(""));
  EXPECT_THAT(matched, HasSubstr("\nhorizon = \"auto\"             # default\n"));
  EXPECT_THAT(matched, HasSubstr("\ndiscount_updates = \"auto\"    # default\n"));
  const std::string predict = print_recipe(loaded_from("pipeline.lookahead = 'predict'"));
  EXPECT_THAT(predict, HasSubstr("\nhorizon = 1.0                # default\n"));
  const std::string discount = print_recipe(loaded_from("pipeline.lookahead = 'lr_discount'"));
  EXPECT_THAT(discount, HasSubstr("\ndiscount_updates = 250       # default\n"));
}

// A file's name is printed in comments, where a line break would start a key.
TEST(Print, SurvivesAStrangeFileName) {
  const auto loaded = parse_recipe(kSmallest, "a\nb = 1\xff.toml", {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(parsed_again(*loaded), loaded->recipe);
}

TEST(Documentation, HoldsEveryKeyOnALineOfItsOwn) {
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
      << "docs/configuration.md is not what the table of keys says: run\n"
         "  build/leeway config keys > docs/configuration.md";
}

}  // namespace
}  // namespace leeway
