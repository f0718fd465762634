#include "compare/comparison.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

constexpr std::string_view kTwo = R"(
seeds = [1, 2]
[base]
"data.train" = "text.txt"
run.updates = 200
[variants."1f1b + allreduce"]
"pipeline.schedule" = "1f1b"
[variants.ours]
[variants.ours.pipeline]
schedule = "async"
)";

std::string error_of(std::string_view toml) {
  const auto parsed = parse_comparison(toml, "set.toml");
  if (parsed.ok()) return "no error";
  EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
  return parsed.error().message;
}

ComparisonText text_of(std::string_view toml) {
  auto parsed = parse_comparison(toml, "set.toml");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return {*parsed, "set.toml", {}};
}

TEST(Comparison, KeysMayBeQuotedDottedOrInTables) {
  const ComparisonText text = text_of(kTwo);
  ASSERT_EQ(text.comparison.variants.size(), 2u);
  EXPECT_EQ(text.comparison.variants[0].name, "1f1b + allreduce");
  EXPECT_EQ(text.comparison.baseline, "1f1b + allreduce");
  EXPECT_EQ(text.comparison.seeds, (std::vector<double>{1, 2}));
  const auto first = stack_variant(text, text.comparison.variants[0], {.rate = 1, .seed = 2});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->recipe.run.updates, 200);
  EXPECT_EQ(first->recipe.run.seed, 2);
  EXPECT_EQ(first->recipe.pipeline.schedule, PipelineSchedule::k1f1b);
  EXPECT_EQ(origin_text(first->origin_of("pipeline.schedule")), "set.toml:7");
  const auto second = stack_variant(text, text.comparison.variants[1], {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(origin_text(second->origin_of("pipeline.schedule")), "set.toml:10");
}

TEST(Comparison, RatesAreFactorsOfTheVariantsOwn) {
  const ComparisonText text = text_of(
      "base.data.train = 'text'\nrates = [0.5, 2]\n[variants.a]\n[variants.b]\noptimizer.rate = "
      "0.1");
  const auto first = stack_variant(text, text.comparison.variants[0], {.rate = 0.5});
  const auto second = stack_variant(text, text.comparison.variants[1], {.rate = 2});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_DOUBLE_EQ(first->recipe.optimizer.rate, 1.5e-3);
  EXPECT_DOUBLE_EQ(first->recipe.optimizer.matrix_rate, 0.01);
  EXPECT_DOUBLE_EQ(second->recipe.optimizer.rate, 0.2);
  EXPECT_EQ(origin_text(second->origin_of("optimizer.rate")), "set.toml:2");
}

TEST(Comparison, TheLaterRunLengthWins) {
  ComparisonText text = text_of(
      "[base]\ndata.train = 'text'\nrun.tokens = 4096\n[variants.a]\nrun.updates = 3\n"
      "[variants.b]");
  auto first = stack_variant(text, text.comparison.variants[0], {});
  auto second = stack_variant(text, text.comparison.variants[1], {});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(complete_recipe(*first, "set.toml").ok());
  ASSERT_TRUE(complete_recipe(*second, "set.toml").ok());
  EXPECT_EQ(first->recipe.run.updates, 3);
  EXPECT_EQ(second->recipe.run.updates, 2);  // 16 sequences of 128
}

TEST(Comparison, ErrorsAreOneSentenceWithTheLine) {
  EXPECT_EQ(error_of("seed = [1]\n[variants.a]"),
            "set.toml:1: unknown key seed, did you mean seeds?");
  EXPECT_EQ(error_of("[variants.a]\n[variant.b]"),
            "set.toml:2: unknown key variant, did you mean variants?");
  EXPECT_EQ(error_of("fair = 1\n[variants.a]"), "set.toml:1: fair is 1, allowed: true or false");
  EXPECT_EQ(error_of("target_loss = 0\n[variants.a]"),
            "set.toml:1: target_loss is 0, allowed: a loss above 0, at most 1000");
  EXPECT_NE(error_of("seeds = [1, 1]\n[variants.a]").find("distinct whole numbers"),
            std::string::npos);
  EXPECT_NE(error_of("seeds = [1.5]\n[variants.a]").find("seeds is [1.5]"), std::string::npos);
  EXPECT_NE(error_of("rates = [0]\n[variants.a]").find("each above 0"), std::string::npos);
  EXPECT_NE(error_of("recipe = 3\n[variants.a]").find("recipe is 3"), std::string::npos);
  EXPECT_NE(
      error_of("[variants.a]\nrun.seed = 3").find("set.toml:2: run.seed is set by the comparison"),
      std::string::npos);
  EXPECT_NE(error_of("variants.a = 3").find("variants.a is not a table"), std::string::npos);
  EXPECT_NE(error_of("variants = 3").find("variants is a table"), std::string::npos);
  EXPECT_NE(error_of("").find("nothing to compare"), std::string::npos);
  EXPECT_NE(error_of("baseline = 'oors'\n[variants.ours]").find("did you mean \"ours\"?"),
            std::string::npos);
}

TEST(Comparison, UnknownKeysOfAVariantNameTheLine) {
  const ComparisonText text = text_of("[variants.a]\n\"model.widht\" = 3");
  const auto stacked = stack_variant(text, text.comparison.variants[0], {});
  ASSERT_FALSE(stacked.ok());
  EXPECT_EQ(stacked.error().message,
            "set.toml:2: unknown key model.widht, did you mean model.width?");
}

}  // namespace
}  // namespace leeway
