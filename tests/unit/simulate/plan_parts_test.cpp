// What plans and calibration rely on: the costs of an update, and the averaged fraction.
#include "recipe/stage_costs.h"
#include "simulate/mesh_plan.h"
#include "simulate_testing.h"

namespace leeway {
namespace {

std::vector<sim::StageCosts> costs_with(const std::vector<std::string>& sets) {
  const auto recipe = scenario_of(scenario_text("")).recipe_with(sets);
  EXPECT_TRUE(recipe.ok()) << recipe.error().message;
  return unit_costs(recipe->recipe, 257);
}

// The first three of 4 stages are 3, 2 and 1 forwards ahead; a look-ahead makes at most two
// guesses.
TEST(StageCosts, AnUpdateCostsAStepPlusOnePerGuess) {
  const auto plain = costs_with({"mesh.stages=4", "pipeline.schedule=1f1b"});
  const auto guessing = costs_with({"mesh.stages=4", "pipeline.lookahead=tentative"});
  const auto once = costs_with({"mesh.stages=4", "pipeline.refresh=1"});
  const std::vector<int64_t> steps = {3, 3, 2, 1};
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(guessing[s].update.count, steps[s] * plain[s].update.count) << s;
    EXPECT_EQ(once[s].update.count, (s < 3 ? 2 : 1) * plain[s].update.count) << s;
    EXPECT_EQ(guessing[s].forward.count, plain[s].forward.count) << s;
  }
}

// A block of width 32: four attention matrices of 32 x 32 and three of 32 x 96 (hidden).
TEST(StageCosts, MuonMultipliesItsMatrices) {
  const std::vector<std::string> one_layer = {"model.layers=1", "model.hidden=96"};
  auto with = one_layer, without = one_layer;
  with.emplace_back("optimizer.name=muon");
  without.emplace_back("optimizer.name=adamw");
  const double products = 5 * 2 * 32.0 * 32 * (4 * (2 * 32 + 32) + 3 * (2 * 96 + 32));
  const int64_t more =
      costs_with(with).front().update.count - costs_with(without).front().update.count;
  EXPECT_EQ(more, std::llround(products * 1e-3));  // ns at 1 TFLOP/s
}

// `run.driver = "sim"` and a scenario's machines take the same time.
TEST(StageCosts, TheDriverAndTheScenarioAgree) {
  const auto recipe = scenario_of(scenario_text(""))
                          .recipe_with({"mesh.stages=2", "optimizer.name=muon", "sim.flops=1e9",
                                        "sim.speeds=[1, 0.5]"});
  ASSERT_TRUE(recipe.ok()) << recipe.error().message;
  const auto unit = unit_costs(recipe->recipe, 257);
  const auto own = sim_costs(recipe->recipe, 257);
  for (size_t s = 0; s < 2; ++s) {
    const double slower = s == 0 ? 1e3 : 2e3;
    EXPECT_NEAR(own[s].update.seconds() / (slower * unit[s].update.seconds()), 1, 1e-3) << s;
    EXPECT_NEAR(own[s].backward.seconds() / (slower * unit[s].backward.seconds()), 1, 1e-3) << s;
  }
}

TEST(StageCosts, AWorkerMayHaveItsOwnSpeed) {
  const auto recipe = scenario_of(scenario_text(""))
                          .recipe_with({"mesh.stages=2", "mesh.replicas=2", "sim.flops=1e9",
                                        "sim.speeds=[1, 1, 1, 0.5]"});
  ASSERT_TRUE(recipe.ok()) << recipe.error().message;
  const auto costs = sim_costs(recipe->recipe, 257);
  ASSERT_EQ(costs.size(), 4U);
  EXPECT_EQ(costs[2].forward, costs[0].forward);
  EXPECT_NEAR(costs[3].forward.seconds() / costs[1].forward.seconds(), 2, 1e-3);
}

TEST(StageCosts, AMachineHasItsOwnSpeedForUpdates) {
  const sim::StageCosts unit = {.forward = {1000},
                                .backward = {2000},
                                .update = {900},
                                .rounds = sim::RoundCosts::each({100})};
  const auto on = [&](const std::string& keys) {
    const Scenario scenario = scenario_of(scenario_text("", keys));
    return costs_on(cluster_of(scenario).machines.front(), unit);
  };
  EXPECT_EQ(on("tflops = 0.5").update.count, 1800);
  EXPECT_EQ(on("tflops = 0.5\nupdate_tflops = 0.25").update.count, 3600);
  EXPECT_EQ(on("tflops = 0.5\nupdate_tflops = 0.25").backward.count, 4000);
  EXPECT_EQ(on("tflops = 0.5\nupdate_tflops = 0.25").rounds.merge.count, 400);
}

// What a replica contributes, adds up as an owner and merges does not depend on how many there are.
TEST(StageCosts, OfARoundAreInProportionToItsValues) {
  const std::vector<std::string> large = {"model.width=1024", "model.heads=8"};
  const auto rounds = [&](int64_t replicas, const std::string& set) {
    std::vector<std::string> sets = large;
    sets.insert(sets.end(), {"mesh.replicas=" + std::to_string(replicas), set});
    return costs_with(sets).front().rounds;
  };
  for (const std::string method : {"averaging.method=lowbit", "averaging.method=sparse"}) {
    const sim::RoundCosts two = rounds(2, method);
    for (const int64_t replicas : {16, 64}) {
      const sim::RoundCosts many = rounds(replicas, method);
      EXPECT_EQ(many.contribute, two.contribute);
      const auto all = static_cast<double>(replicas);
      EXPECT_NEAR(many.part.seconds() * all / (2 * two.part.seconds()), 1, 0.01) << method;
      EXPECT_NEAR(many.merge.seconds() * all / (2 * two.merge.seconds()), 1, 0.01) << method;
    }
  }
  const double half = rounds(2, "averaging.fraction=0.025").contribute.seconds();
  EXPECT_NEAR(half / rounds(2, "averaging.fraction=0.05").contribute.seconds(), 0.5, 0.01);
}

MeshPlan plan_of(const std::string& text) {
  const Scenario scenario = scenario_of(text);
  const Cluster cluster = cluster_of(scenario);
  const auto plan = plan_for({.scenario = scenario, .cluster = cluster, .vocabulary = 257});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? *plan : MeshPlan{};
}

double planned_fraction(const std::string& site, const std::string& recipe = "") {
  const MeshPlan plan = plan_of(scenario_text(site) + recipe);
  const Recipe& chosen = plan.candidates.front().recipe.recipe;
  EXPECT_EQ(chosen.mesh.replicas, 8);
  EXPECT_EQ(chosen.averaging.interval, 1);
  return chosen.averaging.fraction;
}

TEST(Plan, AveragesMoreIfLinesAllowUnlessTheRecipeSetsIt) {
  EXPECT_EQ(planned_fraction(""), 0.25);
  EXPECT_EQ(planned_fraction("", "[averaging]\nfraction = 0.03\n"), 0.03);
  EXPECT_EQ(planned_fraction("uplink_mbit = 1.2"), 0.1);
  EXPECT_EQ(planned_fraction("uplink_mbit = 0.6"), 0.05);
  // The recipe's own lag applies however fast the lines are.
  EXPECT_EQ(planned_fraction("", "[averaging]\nmerge = \"fixed_lag\"\nlag = 4\n"), 0.1);
  EXPECT_EQ(planned_fraction("", "[averaging]\nmerge = \"fixed_lag\"\nlag = 20\n"), 0.05);
}

// Seven slow machines at one site, a fast one elsewhere behind a thin link.
TEST(Plan, MayUseASingleMachine) {
  const MeshPlan plan =
      plan_of(scenario_text("bandwidth_mbit = 0.001", "tflops = 0.00001") +
              "[[site]]\nname = \"t\"\n[[link]]\nbetween = [\"s\", \"t\"]\nbandwidth_mbit = 0.001\n"
              "[[machine]]\nname = \"fast\"\nsite = \"t\"\nmemory_gb = 100\ntflops = 1\n");
  const Candidate& chosen = plan.candidates.front();
  EXPECT_EQ(chosen.recipe.recipe.mesh.stages * chosen.recipe.recipe.mesh.replicas, 1);
  EXPECT_EQ(chosen.placement, Placement{8});
}

TEST(Plan, AccountsForWaitingInAnAllreduce) {
  const MeshPlan plan =
      plan_of(scenario_text("uplink_mbit = 0.05") + "[averaging]\nmethod = \"allreduce\"\n");
  int64_t held_back = 0;
  for (const Candidate& candidate : plan.candidates) {
    if (candidate.choice.replicas == 1) continue;
    EXPECT_NEAR(candidate.predicted / candidate.simulated, 1, 0.3);
    held_back += candidate.limit == "averaging" ? 1 : 0;
  }
  EXPECT_GT(held_back, 0);
}

}  // namespace
}  // namespace leeway
