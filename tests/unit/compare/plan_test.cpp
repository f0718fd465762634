#include "compare/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace leeway {
namespace {

using testing::HasSubstr;

Result<ComparisonPlan> plan_of(const std::string& toml) {
  auto parsed = parse_comparison("base.data.train = 'text.txt'\n" + toml, "set.toml");
  if (!parsed.ok()) return parsed.error();
  return plan_comparison({*parsed, "set.toml", {}});
}

std::string error_of(const std::string& toml) {
  const auto plan = plan_of(toml);
  if (plan.ok()) return "no error";
  EXPECT_EQ(plan.error().kind, ErrorKind::kUsage);
  return plan.error().message;
}

TEST(Plan, EveryVariantGetsEveryRateAndSeed) {
  const auto plan = plan_of("seeds = [3, 4]\nrates = [0.5, 1, 2]\n[variants.a]\n[variants.'b c']");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->runs.size(), 12u);
  EXPECT_EQ(plan->seeds, (std::vector<int64_t>{3, 4}));
  std::set<std::string> names;
  for (const PlannedRun& run : plan->runs) names.insert(run.name);
  EXPECT_EQ(names.size(), 12u);
  EXPECT_THAT(plan->runs[1].name, testing::StartsWith("b_c-x0.5-seed3-"));
}

TEST(Plan, WithoutSeedsTheRecipesSeedIsUsed) {
  const auto plan = plan_of("[variants.a]");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->seeds, (std::vector<int64_t>{1}));
}

TEST(Plan, TheNameChangesOnlyWithTheRecipe) {
  const auto name = [](const std::string& toml) { return plan_of(toml)->runs.back().name; };
  EXPECT_EQ(name("[variants.a]"), name("# moved\n\n[variants.b]\nmodel.width = 64\n[variants.a]"));
  EXPECT_NE(name("[variants.a]"), name("[variants.a]\nmodel.width = 64"));
  EXPECT_EQ(name("[variants.a]"), name("[variants.a]\nmodel.width = 128"));  // the default
}

TEST(Plan, TheHashCoversEveryTable) {
  Recipe recipe;
  const uint64_t before = recipe_hash(recipe);
  recipe.sim.jitter_ms = 1;
  EXPECT_NE(recipe_hash(recipe), before);
}

TEST(Plan, ATargetLossNeedsEqualEvaluations) {
  const std::string target = "target_loss = 2\nbase.run.evaluate_every = ";
  EXPECT_EQ(error_of(target + "10\n[variants.a]"), "no error");
  EXPECT_THAT(error_of(target + "0\n[variants.a]"),
              HasSubstr("target_loss does not work with run.evaluate_every = 0 of \"a\""));
  EXPECT_THAT(error_of(target + "1000\n[variants.a]"), HasSubstr("in its 1000 updates"));
  const std::string unequal = "10\n[variants.a]\n[variants.b]\nrun.evaluate_every = 20";
  EXPECT_THAT(error_of(target + unequal),
              HasSubstr("run.evaluate_every of \"a\" is 10 and of \"b\" 20"));
  EXPECT_EQ(error_of("base.run.evaluate_every = " + unequal), "no error");
  const std::string means = "10\n[variants.a]\nrun.evaluate_mean_every = ";
  EXPECT_THAT(error_of(target + means + "0"),
              HasSubstr("target_loss does not work with run.evaluate_mean_every = 0 of \"a\""));
  EXPECT_THAT(error_of(target + means + "30\n[variants.b]"),
              HasSubstr("run.evaluate_mean_every of \"a\" is 30 and of \"b\" 1"));
}

TEST(Plan, UnfairComparisonsAreRefusedWithTheDifference) {
  const std::string longer = "[variants.a]\n[variants.b]\nrun.updates = 7";
  EXPECT_THAT(error_of(longer),
              HasSubstr("not a fair comparison: updates of \"a\" are 1000 and of \"b\" 7 (and 1 "
                        "more); make them equal, or set fair = false"));
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\ndata.batch = 8"), HasSubstr("tokens of"));
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\ndata.valid = 'x'"), HasSubstr("data.valid of"));
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\ndata.train = 'x'"), HasSubstr("data.train of"));
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\nrun.evaluate_windows = 8"),
              HasSubstr("run.evaluate_windows of \"a\" are 64 and of \"b\" 8"));
  const auto allowed = plan_of("fair = false\n" + longer);
  ASSERT_TRUE(allowed.ok()) << allowed.error().message;
  EXPECT_EQ(allowed->unfair.size(), 2u);
}

TEST(Plan, DifferentTrainingDataIsFairIfValidationIsTheSame) {
  const auto plan =
      plan_of("base.data.valid = 'v'\n[variants.a]\n[variants.b]\ndata.train = 'other'");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(plan->unfair.empty());
}

TEST(Plan, MistakesAreErrorsAndBadCombinationsAreRows) {
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\nmodel.widht = 8"),
              HasSubstr("set.toml:4: unknown key model.widht"));
  EXPECT_THAT(error_of("[variants.a]\n[variants.b]\nmodel.width = 0"),
              HasSubstr("model.width is 0"));
  const auto plan = plan_of("[variants.a]\n[variants.b]\nmodel.heads = 3");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->runs[0].refused, "");
  EXPECT_THAT(plan->runs[1].refused, HasSubstr("model.heads"));
}

TEST(Plan, NothingToRunIsAnError) {
  EXPECT_THAT(error_of("[variants.a]\nmodel.heads = 3"), HasSubstr("model.heads"));
}

TEST(Plan, DuplicatesAreRefused) {
  EXPECT_THAT(error_of("[variants.'a b']\n[variants.'a_b']"), HasSubstr("remove one"));
}

}  // namespace
}  // namespace leeway
