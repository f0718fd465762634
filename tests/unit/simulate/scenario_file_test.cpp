#include "simulate/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/temporary_folder.h"
#include "base/files.h"

namespace leeway {
namespace {

using testing::HasSubstr;

constexpr const char* kGood =
    "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n"
    "[[machine]]\nname = \"m\"\ncount = 2\nsite = \"a\"\ntflops = 1\nmemory_gb = 8\n"
    "[[machine]]\nname = \"n\"\nsite = \"b\"\ntflops = 1\nmemory_gb = 8\n";
constexpr const char* kLink = "[[link]]\nbetween = [\"a\", \"b\"]\nlatency_ms = 3\n";

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto scenario = parse_scenario(text, "s.toml", sets);
  return scenario.ok() ? "" : scenario.error().message;
}

TEST(Scenario, IsReadWithItsRecipe) {
  const auto scenario =
      parse_scenario(std::string(kGood) + kLink + "[model]\nwidth = 64\n[data]\ntrain = \"x\"\n",
                     "s.toml", {"simulate.updates=7", "model.layers=6"});
  ASSERT_TRUE(scenario.ok()) << scenario.error().message;
  EXPECT_EQ(scenario->worker_count(), 3);
  EXPECT_EQ(scenario->options.updates, 7);
  EXPECT_EQ(scenario->links[0].latency_ms, 3);
  const auto recipe = scenario->recipe_with({"model.layers=5", "model.heads=8"});
  ASSERT_TRUE(recipe.ok()) << recipe.error().message;
  EXPECT_EQ(recipe->recipe.model.width, 64);
  EXPECT_EQ(recipe->recipe.model.layers, 6) << "the command line wins";
  EXPECT_EQ(recipe->recipe.model.heads, 8);
}

TEST(Scenario, MistakesNameFileAndLine) {
  const std::string good = kGood;
  EXPECT_THAT(refusal(good), HasSubstr("s.toml:11: machine \"n\" at \"b\" cannot be reached from "
                                       "\"m\" at \"a\": add a [[link]]"));
  const std::string linked = good + kLink;
  EXPECT_EQ(refusal(linked), "");
  EXPECT_THAT(refusal(good + "[[link]]\nbetween = [\"a\", \"b\"]\nlatency_ms = -1\n"),
              HasSubstr("s.toml:18: link.latency_ms is -1, allowed: a number from 0"));
  EXPECT_THAT(refusal(linked + "[[stall]]\nmachine = \"m-3\"\nat_s = 1\nfor_s = 1\n"),
              HasSubstr("s.toml:19: there is no machine \"m-3\", did you mean m-1?"));
  EXPECT_THAT(refusal(linked + "[[machin]]\nname = \"x\"\n"),
              HasSubstr("unknown table machin, did you mean machine?"));
  EXPECT_THAT(refusal(linked + "[[link]]\nbetwen = [\"a\", \"b\"]\nbetween = [\"a\", \"b\"]\n"),
              HasSubstr("unknown key link.betwen, did you mean between?"));
  EXPECT_THAT(refusal(linked + "[machine]\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(refusal("[churn]\nup_s = 1\n"), HasSubstr("churn has no down_s"));
  EXPECT_THAT(refusal("simulate = 3\n"), HasSubstr("write [simulate]"));
  EXPECT_THAT(refusal("[model]\nwidth = 64\n"), HasSubstr("no machines"));
  EXPECT_THAT(refusal(linked, {"simulate.updates=-1"}), HasSubstr("--set simulate.updates=-1"));
  EXPECT_THAT(refusal(linked + "recipe = \"none.toml\"\n"), HasSubstr("link.recipe"));
  EXPECT_THAT(refusal("recipe = \"none.toml\"\n" + linked), HasSubstr("s.toml:1: cannot read"));
}

TEST(Scenario, BrokenTracesAreNamedByLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& trace) {
    EXPECT_TRUE(write_atomically(folder.path() / "t.csv", trace).ok());
    const auto scenario = parse_scenario(
        std::string(kGood) + "[[link]]\nbetween = [\"a\", \"b\"]\ntrace = \"t.csv\"\n",
        folder.path() / "s.toml", {});
    return scenario.ok() ? "" : scenario.error().message;
  };
  EXPECT_EQ(refused("0,100\n5,50,20\n"), "");
  EXPECT_THAT(refused("0,100\n5,x\n"), HasSubstr("t.csv:2: a line of a trace must be"));
  EXPECT_THAT(refused("0,100\n5,-1\n"), HasSubstr("t.csv:2: a line of a trace must be"));
  EXPECT_THAT(refused("1,100\n"), HasSubstr("t.csv:1: a trace must begin at 0"));
  EXPECT_THAT(refused("0,100\n0,50\n"), HasSubstr("t.csv:2: the times of a trace must ascend"));
  EXPECT_THAT(refused("0,0\n"), HasSubstr("the trace is too slow"));
  EXPECT_THAT(refused("0,1e-300\n"), HasSubstr("the trace is too slow"));
  EXPECT_THAT(refused("0,1\n1e-12,2\n"), HasSubstr("by a millisecond or more"));
  EXPECT_THAT(refused("0,0\n999999998,0.001\n999999999,0\n"), HasSubstr("the trace is too slow"));
}

}  // namespace
}  // namespace leeway
