// Small scenarios as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulate/method_run.h"

namespace leeway {

// Eight machines at one site, and a small model; `site` has keys that describe the links.
inline std::string scenario_text(const std::string& site, const std::string& machine = "") {
  return "simulate.vocabulary = 257\n"
         "[[site]]\nname = \"s\"\n" +
         site + "\n[[machine]]\nname = \"m\"\ncount = 8\nsite = \"s\"\nmemory_gb = 100\n" +
         (machine.empty() ? "tflops = 0.001" : machine) +
         "\n[model]\nlayers = 8\nwidth = 32\nheads = 2\ncontext = 32\n"
         "[data]\ntrain = \"x\"\nbatch = 16\n[run]\nupdates = 1000\n";
}

inline Scenario scenario_of(const std::string& text) {
  const Result<Scenario> scenario = parse_scenario(text, "test.toml", {});
  EXPECT_TRUE(scenario.ok()) << scenario.error().message;
  return scenario.ok() ? *scenario : Scenario{};
}

inline MethodResult result_of(const Scenario& scenario, const std::vector<std::string>& sets,
                              int64_t updates = 0) {
  const Result<LoadedRecipe> recipe = scenario.recipe_with(sets);
  EXPECT_TRUE(recipe.ok()) << recipe.error().message;
  const Cluster cluster = cluster_of(scenario);
  const auto placement = place(cluster, machine_order(cluster), recipe->recipe.mesh, false);
  EXPECT_TRUE(placement.ok()) << placement.error().message;
  const Result<MethodResult> result = simulate_method(cluster, {.name = "m",
                                                                .recipe = *recipe,
                                                                .vocabulary = 257,
                                                                .updates = updates,
                                                                .placement = *placement});
  EXPECT_TRUE(result.ok()) << result.error().message;
  return *result;
}

}  // namespace leeway
