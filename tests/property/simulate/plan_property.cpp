// Random clusters: a plan is a recipe that passes config check and fits every machine, or one
// sentence says why there is none.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "config/print.h"
#include "recipe/lane_options.h"
#include "recipe/planned_memory.h"
#include "simulate/mesh_plan.h"

namespace leeway {
namespace {

constexpr int64_t kVocabulary = 1000;

template <class T>
T one_of(std::vector<T> values) {
  return *rc::gen::elementOf(values);
}

// Without the key there is no limit.
std::string limit(const char* key, double megabits) {
  return megabits > 0 ? fmt::format("{} = {}\n", key, megabits) : "";
}

std::string random_text() {
  const auto sites = *rc::gen::inRange<int>(1, 4);
  std::string text = fmt::format("simulate.vocabulary = {}\nsimulate.tokens_per_update = {}\n",
                                 kVocabulary, one_of<int64_t>({2048, 32768, 524288}));
  for (int a = 0; a < sites; ++a) {
    text += fmt::format("[[site]]\nname = \"s{}\"\nlatency_ms = {}\njitter_ms = {}\n", a,
                        one_of<double>({0, 0.1, 50}), one_of<double>({0, 3}));
    text += limit("bandwidth_mbit", one_of<double>({0, 100, 10000}));
    text += limit("uplink_mbit", one_of<double>({0, 0, 20}));
    for (int b = 0; b < a; ++b)
      text += fmt::format(
          "[[link]]\nbetween = [\"s{}\", \"s{}\"]\nlatency_ms = {}\nbandwidth_mbit = {}\n", b, a,
          one_of<double>({1, 30, 200}), one_of<double>({10, 200, 1000}));
    text += fmt::format(
        "[[machine]]\nname = \"m{}\"\ncount = {}\nsite = \"s{}\"\ntflops = {}\nmemory_gb = {}\n"
        "workers = {}\n",
        a, *rc::gen::inRange<int>(1, 7), a, one_of<double>({0.5, 3, 20}),
        one_of<double>({0.05, 0.3, 2, 16}), one_of<int>({1, 1, 2}));
  }
  text +=
      fmt::format("[model]\nlayers = {}\nwidth = {}\nheads = 4\ncontext = {}\n",
                  *rc::gen::inRange<int>(1, 13), one_of<int>({64, 256}), one_of<int>({64, 256}));
  text +=
      fmt::format("[optimizer]\nname = \"{}\"\n", one_of<std::string>({"muon", "adamw", "nadamw"}));
  text += fmt::format("[run]\nupdates = {}\n", one_of<int>({1, 40, 1000}));
  if (*rc::gen::inRange<int>(0, 3) == 0) {
    text += fmt::format("[averaging]\nmethod = \"{}\"\n",
                        one_of<std::string>({"lowbit", "allreduce", "sparse"}));
  } else if (*rc::gen::inRange<int>(0, 3) == 0) {
    text += fmt::format("[averaging]\nmerge = \"fixed_lag\"\nlag = {}\n", one_of<int>({1, 8, 40}));
  }
  return text + "[data]\ntrain = \"x\"\n";
}

RC_GTEST_PROP(Plan, IsARecipeThatFits, ()) {
  const std::string text = random_text();
  RC_LOG() << text;
  const auto scenario = parse_scenario(text, "random.toml", {});
  RC_ASSERT(scenario.ok());
  const Cluster cluster = cluster_of(*scenario);
  const auto plan =
      plan_for({.scenario = *scenario, .cluster = cluster, .vocabulary = kVocabulary});
  if (!plan.ok()) {
    RC_LOG() << plan.error().message;
    RC_ASSERT(plan.error().kind == ErrorKind::kUsage);
    RC_ASSERT(plan.error().message.find("no plan fits") != std::string::npos);
    return;
  }
  const Candidate& chosen = plan->candidates.front();
  const auto again = parse_recipe(print_recipe(chosen.recipe), "plan.toml", {});
  if (!again.ok()) RC_LOG() << again.error().message;
  RC_ASSERT(again.ok());
  RC_ASSERT(again->recipe == chosen.recipe.recipe);
  const Recipe& recipe = again->recipe;
  RC_ASSERT(recipe.data.batch * recipe.model.context * recipe.mesh.replicas <=
            scenario->options.tokens_per_update);
  std::map<size_t, double> need;
  const auto stages = planned_memory(recipe, kVocabulary);
  for (size_t at = 0; at < chosen.placement.size(); ++at)
    need[chosen.placement[at]] += stages[at % stages.size()].total();
  for (const auto& [machine, bytes] : need)
    RC_ASSERT(bytes <= cluster.machines[machine].memory_bytes);
  RC_ASSERT(plan->result.tokens_per_second > 0);
  const AveragingOptions& averaging = recipe.averaging;
  if (averaging.method == AveragingMethod::kSparse && averaging.merge == MergePolicy::kFixedLag &&
      recipe.mesh.replicas > 1 && averaging.interval < recipe.run.updates / 2) {
    const auto lag = averaging.lag;
    RC_ASSERT(!stability_warning(stability_options(recipe, lag)));
  }
}

}  // namespace
}  // namespace leeway
