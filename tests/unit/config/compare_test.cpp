#include "config/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace leeway {
namespace {

Recipe recipe_of(const std::vector<std::string>& sets) {
  return parse_recipe("data.train = 'x'", "test", sets).value().recipe;
}

TEST(Compare, EqualRecipesDoNotDiffer) {
  EXPECT_TRUE(differences(recipe_of({}), recipe_of({})).empty());
}

TEST(Compare, WatchingDoesNotMatter) {
  const Recipe other = recipe_of(
      {"run.keep=9", "run.evaluate_every=3", "run.threads_per_worker=1", "run.device=cuda"});
  EXPECT_TRUE(differences(recipe_of({}), other).empty());
}

TEST(Compare, NamesTheKeyAndBothValues) {
  const auto found = differences(recipe_of({}), recipe_of({"model.width=64", "run.seed=2"}));
  ASSERT_EQ(found.size(), 3U);  // model.hidden follows the width
  EXPECT_EQ(found[0].key, "run.seed");
  EXPECT_EQ(found[1].key, "model.width");
  EXPECT_EQ(found[1].first, "128");
  EXPECT_EQ(found[1].second, "64");
  for (const Difference& difference : found) EXPECT_FALSE(difference.may_change);
}

TEST(Compare, RatesAndLengthMayChange) {
  const auto found = differences(recipe_of({}), recipe_of({"optimizer.rate=0.5", "run.updates=5"}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].may_change);
  EXPECT_TRUE(found[1].may_change);
}

}  // namespace
}  // namespace leeway
