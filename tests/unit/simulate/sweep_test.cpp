// Fleets of several sizes: which methods are run, and that a worker's share of averaging stays.
#include "simulate/sweep.h"

#include <gmock/gmock.h>

#include "simulate_testing.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<Method>& methods) {
  std::vector<std::string> names;
  for (const Method& method : methods) names.push_back(method.name);
  return names;
}

std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const Result<Scenario> scenario = parse_scenario(text, "test.toml", sets);
  return scenario.ok() ? "" : scenario.error().message;
}

const std::string kMethods =
    "[[method]]\nname = \"a\"\nset = [\"averaging.method=lowbit\"]\n"
    "[[method]]\nname = \"b\"\nset = [\"averaging.method=sparse\"]\n";

TEST(Sweep, RunsEveryMethodInEverySize) {
  const Scenario scenario =
      scenario_of("simulate.replicas = [2, 16]\n" + scenario_text("") + kMethods);
  const Result<std::vector<Method>> methods = methods_to_run(scenario);
  ASSERT_TRUE(methods.ok());
  EXPECT_THAT(names_of(*methods),
              ElementsAre("a, 2 replicas", "a, 16 replicas", "b, 2 replicas", "b, 16 replicas"));
  const Result<LoadedRecipe> recipe = scenario.recipe_with((*methods)[1].set);
  ASSERT_TRUE(recipe.ok());
  EXPECT_EQ(recipe->recipe.mesh.replicas, 16);
  EXPECT_EQ(recipe->recipe.averaging.method, AveragingMethod::kLowbit);
}

TEST(Sweep, WithoutMethodsRunsTheUsualOnesOfReplicas) {
  const auto names = [](const std::string& keys) {
    return names_of(*methods_to_run(scenario_of(keys + scenario_text(""))));
  };
  EXPECT_THAT(names("simulate.replicas = [4]\n"),
              ElementsAre("allreduce, 4 replicas", "diloco, 4 replicas", "lowbit, 4 replicas",
                          "sparse, 4 replicas"));
  EXPECT_THAT(names(""), ElementsAre("async"));
}

TEST(Sweep, MistakesGetASentence) {
  const auto with = [](const std::string& value) {
    return error_of("simulate.replicas = " + value + "\n" + scenario_text(""));
  };
  const std::string allowed = "allowed: a list of whole numbers from 1, at most 256";
  for (const char* value : {"[]", "[0, 2]", "[2, 300]", "[2.5]", "[\"2\"]", "8", "[[2]]"}) {
    EXPECT_THAT(with(value), HasSubstr(allowed)) << value;
  }
  EXPECT_THAT(with("[4, 2, 4]"), HasSubstr("simulate.replicas has 4 twice"));
  const std::string text = "simulate.replicas = [2, 4]\n" + scenario_text("");
  EXPECT_THAT(error_of("simulate.math = true\n" + text), HasSubstr("without training"));
  EXPECT_THAT(error_of(text, {"mesh.replicas=4"}), HasSubstr("set that instead"));
  EXPECT_THAT(error_of(text + "[[method]]\nname = \"m\"\nset = [\"mesh.replicas=3\"]\n"),
              HasSubstr("method \"m\" sets mesh.replicas"));
}

// Room for 64 workers.
MethodResult simulated(int64_t replicas, const std::vector<std::string>& sets) {
  const Scenario scenario =
      scenario_of(scenario_text("latency_ms = 1", "tflops = 1\nworkers = 8\ncores = 8"));
  std::vector<std::string> all = {"mesh.replicas=" + std::to_string(replicas)};
  all.insert(all.end(), sets.begin(), sets.end());
  return result_of(scenario, all, /*updates=*/20);
}

// Every worker sends (R-1)/R of its contribution to the owners, and as much in answers. It makes
// one contribution, adds up R parts of 1/R each, and merges everything.
TEST(Sweep, AWorkersShareOfAveragingDoesNotGrowWithTheFleet) {
  for (const std::string method : {"lowbit", "sparse"}) {
    const std::vector<std::string> sets = {"averaging.method=" + method, "model.width=768",
                                           "model.heads=12"};
    const MethodResult two = simulated(2, sets);
    const double contribution = two.averaging_bytes.most;  // 2 * 1/2 of it
    EXPECT_GT(contribution, 10e6);
    for (const int64_t replicas : {16, 64}) {
      const MethodResult many = simulated(replicas, sets);
      const double share =
          2 * static_cast<double>(replicas - 1) / static_cast<double>(replicas) * contribution;
      EXPECT_NEAR(many.averaging_bytes.most / share, 1, 0.03) << method << " " << replicas;
      EXPECT_NEAR(many.averaging_bytes.mean / share, 1, 0.03) << method << " " << replicas;
      EXPECT_LT(many.averaging_seconds.most, 1.05 * two.averaging_seconds.most) << method;
      EXPECT_GT(many.averaging_seconds.mean, 0.7 * two.averaging_seconds.mean) << method;
    }
  }
}

// A model too small for 32 chunks has eight owners: they show.
TEST(Sweep, TheWorstWorkerIsAHotOwner) {
  const MethodResult small = simulated(32, {"averaging.method=lowbit"});
  EXPECT_GT(small.averaging_bytes.most, 2 * small.averaging_bytes.mean);
  EXPECT_GT(small.averaging_seconds.most, 1.3 * small.averaging_seconds.mean);
}

TEST(Sweep, ReportsOneTable) {
  const Scenario scenario = scenario_of("simulate.replicas = [2]\n" + scenario_text(""));
  MethodResult result = simulated(2, {"averaging.method=lowbit"});
  result.name = "lowbit, 2 replicas";
  MethodResult stuck = result;
  stuck.name = "other";
  stuck.failure = "stuck";
  const std::string text = sweep_report(scenario, {result, stuck});
  EXPECT_THAT(text, HasSubstr("1 stage a replica"));
  EXPECT_THAT(text, HasSubstr("sent by a worker"));
  EXPECT_THAT(text, HasSubstr("\n     lowbit, 2 replicas  "));
  EXPECT_THAT(text, HasSubstr("\nother: stuck\n"));
}

}  // namespace
}  // namespace leeway
