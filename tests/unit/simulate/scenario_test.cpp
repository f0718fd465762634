// Machine events, and their effect on methods.
#include <fmt/format.h>

#include "simulate/results_json.h"
#include "simulate_testing.h"

namespace leeway {
namespace {

const std::vector<std::string> kSparse = {"mesh.replicas=2", "mesh.stages=2"};
const std::vector<std::string> kAllreduce = {"mesh.replicas=2", "mesh.stages=2",
                                             "averaging.method=allreduce"};

TEST(Scenario, AStallDelaysEveryoneWhoWaits) {
  const std::string text = scenario_text("latency_ms = 1");
  const Scenario calm = scenario_of(text);
  const Scenario stalled =
      scenario_of(text + "[[stall]]\nmachine = \"m-1\"\nat_s = 1\nfor_s = 1000\n");
  const double extra =
      result_of(stalled, kAllreduce, 40).seconds - result_of(calm, kAllreduce, 40).seconds;
  EXPECT_NEAR(extra, 1000, 1);
}

// Those that wait stand still until the coordinator has noticed.
TEST(Scenario, ADepartureDelaysMethodsThatWait) {
  const Scenario scenario =
      scenario_of(scenario_text("latency_ms = 1") + "[[departure]]\nmachine = \"m-4\"\nat_s = 1\n");
  const Scenario calm = scenario_of(scenario_text("latency_ms = 1"));
  const MethodResult waits = result_of(scenario, kAllreduce, 40);
  EXPECT_EQ(waits.failure, "");
  EXPECT_GT(waits.seconds, result_of(calm, kAllreduce, 40).seconds + 9);
  const MethodResult goes_on = result_of(scenario, kSparse);
  EXPECT_EQ(goes_on.failure, "");
  EXPECT_GT(goes_on.tokens_per_second, 0);
}

TEST(Scenario, ChurnIsTheSameForTheSameSeed) {
  const std::string text = scenario_text("latency_ms = 1") + "[churn]\nup_s = 20\ndown_s = 5\n";
  const double seconds = result_of(scenario_of(text), kSparse).seconds;
  EXPECT_EQ(result_of(scenario_of(text), kSparse).seconds, seconds);
  EXPECT_NE(result_of(scenario_of(text + "seed = 2\n"), kSparse).seconds, seconds);
}

TEST(Scenario, FastMethodsSeeMachineEventsToo) {
  const std::string text = scenario_text("latency_ms = 1\nbandwidth_mbit = 10");
  const double calm = result_of(scenario_of(text), kSparse).tokens_per_second;
  // One of two replicas leaves long after the usual forty updates would be over.
  const double at = 5 * result_of(scenario_of(text), kSparse).seconds;
  const std::string departs = fmt::format("[[departure]]\nmachine = \"m-4\"\nat_s = {}\n", at);
  const MethodResult goes_on = result_of(scenario_of(text + departs), kSparse);
  EXPECT_GT(goes_on.seconds, 1.9 * at);
  EXPECT_NEAR(goes_on.tokens_per_second / calm, 0.75, 0.03);  // both for half the time, then one
  EXPECT_TRUE(goes_on.notes.empty()) << goes_on.notes[0];
  // A fixed number of updates is too short, which is noted.
  const MethodResult asked = result_of(scenario_of(text + departs), kSparse, 40);
  ASSERT_EQ(asked.notes.size(), 1U);
  EXPECT_NE(asked.notes[0].find("too short for the machine events to show"), std::string::npos);
}

TEST(Scenario, LateReplicasCountOnlyWhilePresent) {
  const std::string text = scenario_text("latency_ms = 1\nbandwidth_mbit = 10");
  const MethodResult calm = result_of(scenario_of(text), kSparse);
  const std::string joins =
      fmt::format("[[join]]\nmachine = \"m-3\"\nat_s = {}\n", 5 * calm.seconds);
  const MethodResult late = result_of(scenario_of(text + joins), kSparse);
  EXPECT_NEAR(late.tokens_per_second / calm.tokens_per_second, 0.75, 0.03);
}

TEST(Scenario, ShortEventsDoNotShortenTheMeasurement) {
  const std::string text = scenario_text("latency_ms = 1\nbandwidth_mbit = 10");
  const double calm = result_of(scenario_of(text), kAllreduce).tokens_per_second;
  const std::string stall = "[[stall]]\nmachine = \"m-1\"\nat_s = 0.001\nfor_s = 0.001\n";
  const MethodResult stalled = result_of(scenario_of(text + stall), kAllreduce);
  EXPECT_NEAR(stalled.tokens_per_second / calm, 1, 0.05);
  EXPECT_TRUE(stalled.notes.empty());
}

TEST(Scenario, ChurnThatEndsIsNoted) {
  const MethodResult result = result_of(
      scenario_of(scenario_text("latency_ms = 1") + "[churn]\nup_s = 1e-6\ndown_s = 1e-6\n"),
      kSparse);
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes[0].find("churn covers only the first"), std::string::npos);
}

TEST(Scenario, RoundsAreCountedOverWholePeriods) {
  const std::vector<std::string> sets = {"mesh.replicas=2", "averaging.method=diloco",
                                         "averaging.interval=50"};
  const Scenario scenario = scenario_of(scenario_text("latency_ms = 1"));
  const MethodResult result = result_of(scenario, sets);
  EXPECT_EQ(result.updates % 50, 0);
  // Two replicas send all weights and get the mean, in fp32, once every 50 updates.
  const double expected = 2.0 * 4 * static_cast<double>(result.parameters) / 50;
  EXPECT_NEAR(static_cast<double>(result.bytes.averaging) / static_cast<double>(result.updates),
              expected, 0.01 * expected);
  const MethodResult asked = result_of(scenario, sets, 40);
  ASSERT_EQ(asked.notes.size(), 1U);
  EXPECT_NE(asked.notes[0].find("repeat every 50 updates, but 40 were simulated"),
            std::string::npos);
}

TEST(Scenario, MethodsDropKeysTheyDoNotUse) {
  const Scenario scenario =
      scenario_of(scenario_text("") +
                  "[mesh]\nstages = 2\nreplicas = 2\n[pipeline]\nlookahead = "
                  "\"matched\"\n[averaging]\nfraction = 0.1\nlag = 3\nmerge = "
                  "\"fixed_lag\"\n");
  const auto base = scenario.recipe_with({});
  ASSERT_TRUE(base.ok()) << base.error().message;
  const std::vector<Method> methods = default_methods(*base);
  EXPECT_EQ(methods.size(), 6u);
  for (const Method& method : methods) {
    const auto recipe = scenario.recipe_with(method.set);
    ASSERT_TRUE(recipe.ok()) << method.name << ": " << recipe.error().message;
    const bool own = recipe->recipe.averaging.method == AveragingMethod::kSparse;
    EXPECT_EQ(recipe->recipe.averaging.fraction, own ? 0.1 : 1.0) << method.name;
  }
}

// Bytes by purpose are what the recipe's traffic estimate predicts.
TEST(Scenario, TrafficBetweenSitesIsWhatWasSent) {
  const MethodResult result = result_of(scenario_of(scenario_text("latency_ms = 1")), kSparse, 40);
  ASSERT_EQ(result.traffic.size(), 1u);
  EXPECT_EQ(result.traffic[0].bytes, result.bytes.total());
  EXPECT_EQ(result.bytes.activations, 40 * 2 * 16 * 32 * 32 * 4);
}

}  // namespace
}  // namespace leeway
