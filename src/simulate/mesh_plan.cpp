#include "simulate/mesh_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace leeway {
namespace {

constexpr size_t kSimulated = 6;
constexpr int64_t kSimulatedUpdates = 16;  // or enough for two rounds
constexpr int64_t kReplicasMax = 256;      // the key's maximum
constexpr int64_t kMicrobatchMax = 64;
constexpr double kAsGood = 0.98;   // of the best: then the smaller update wins
constexpr double kFarBelow = 0.8;  // simulated speed relative to the estimate

// Groups machines by site, larger sites and faster machines first, so that pipelines need not cross
// sites and stages are about equally fast.
std::vector<size_t> grouped(const Cluster& cluster) {
  std::vector<size_t> sizes(cluster.sites.size(), 0);
  for (const Machine& machine : cluster.machines) ++sizes[machine.site];
  std::vector<size_t> order = machine_order(cluster);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const Machine& first = cluster.machines[a];
    const Machine& second = cluster.machines[b];
    if (first.site != second.site) {
      const size_t here = sizes[first.site], there = sizes[second.site];
      return here != there ? here > there : first.site < second.site;
    }
    return first.tflops > second.tflops;
  });
  return order;
}

// For every number of replicas, the longest pipelines that machines and layers allow; short ones
// that leave out the last machines, which may be too small or too slow; and a few machines with the
// whole model each.
std::vector<MeshChoice> choices(int64_t workers, int64_t layers) {
  constexpr int64_t kShort = 4, kFew = 8;
  std::set<std::pair<int64_t, int64_t>> cuts;  // stages, replicas
  for (int64_t replicas = 1; replicas <= std::min(workers, kReplicasMax); ++replicas) {
    const int64_t stages = std::min(workers / replicas, layers);
    const bool more_would_do = replicas < kReplicasMax && workers / (replicas + 1) >= stages;
    if (!more_would_do) cuts.emplace(stages, replicas);
  }
  for (int64_t stages = 1; stages <= std::min({kShort, layers, workers}); ++stages) {
    const int64_t most = std::min(workers / stages, kReplicasMax);
    for (const int64_t quarters : {1, 2, 3})
      cuts.emplace(stages, std::max<int64_t>(1, most * quarters / 4));
  }
  for (int64_t replicas = 1; replicas <= std::min(kFew, workers); ++replicas)
    cuts.emplace(1, replicas);
  std::vector<MeshChoice> all;
  for (const auto& [stages, replicas] : cuts) {
    for (int64_t microbatch = 1; microbatch <= kMicrobatchMax; microbatch *= 2)
      all.push_back({stages, replicas, microbatch});
  }
  return all;
}

Error nothing_fits(const Scenario& scenario, const std::optional<Refusal>& nearest) {
  const std::string why = nearest ? nearest->sentence : "there is no machine to try";
  const std::string_view advice =
      nearest && nearest->kind == Refusal::Kind::kMemory
          ? ": use machines with more memory, or a smaller model or context"
      : nearest && nearest->kind == Refusal::Kind::kTokens ? ": raise it, or lower model.context"
                                                           : "";
  return usage_error(
      fmt::format("{}: no plan fits these machines: {}{}", scenario.source_name, why, advice));
}

// Lack of memory is the most useful reason, and the smallest lack comes nearest.
void keep_nearest(const Refusal& refusal, std::optional<Refusal>& nearest) {
  const auto rank = [](const Refusal& of) {
    return of.kind == Refusal::Kind::kMemory ? 0 : of.kind == Refusal::Kind::kTokens ? 1 : 2;
  };
  if (!nearest || rank(refusal) < rank(*nearest) ||
      (rank(refusal) == rank(*nearest) && refusal.lacking < nearest->lacking))
    nearest = refusal;
}

int64_t tokens_of(const Candidate& candidate) {
  const Recipe& recipe = candidate.recipe.recipe;
  return recipe.data.batch * recipe.model.context * recipe.mesh.replicas;
}

// Highest estimate first; among about equal ones, the smaller update. For each pair of stages and
// replicas, only the best microbatch size is worth simulating.
std::vector<Candidate> finalists(std::vector<Candidate> all) {
  // In steps, so that "about equal" is transitive.
  const auto promise = [](const Candidate& candidate) {
    return std::floor(std::log(candidate.predicted) / -std::log(kAsGood));
  };
  std::ranges::stable_sort(all, [&](const Candidate& a, const Candidate& b) {
    const double first = promise(a), second = promise(b);
    return first != second ? first > second : tokens_of(a) < tokens_of(b);
  });
  std::vector<Candidate> best, rest;
  for (Candidate& candidate : all) {
    const auto same_cut = [&](const Candidate& other) {
      return other.choice.stages == candidate.choice.stages &&
             other.choice.replicas == candidate.choice.replicas;
    };
    const bool fresh = std::ranges::none_of(best, same_cut);
    (fresh ? best : rest).push_back(std::move(candidate));
  }
  best.insert(best.end(), rest.begin(), rest.end());
  return best;
}

int64_t updates_of(const Scenario& scenario, const Recipe& recipe) {
  if (scenario.options.updates > 0) return scenario.options.updates;
  const int64_t period = updates_period(recipe, /*evaluation=*/0);
  return period * std::max<int64_t>(2, (kSimulatedUpdates + period - 1) / period);
}

Result<MethodResult> try_out(const PlanInputs& inputs, Candidate& candidate) {
  LEEWAY_ASSIGN(MethodResult result,
                simulate_method(inputs.cluster,
                                {.name = "plan",
                                 .recipe = candidate.recipe,
                                 .vocabulary = inputs.vocabulary,
                                 .updates = updates_of(inputs.scenario, candidate.recipe.recipe),
                                 .placement = candidate.placement}));
  candidate.simulated = result.tokens_per_second;
  // Caused by machines of unequal speed or by rounds, which the estimate ignores.
  const bool far_below = candidate.simulated < kFarBelow * candidate.predicted;
  if (far_below && candidate.limit == "compute") candidate.limit = "waiting";
  return result;
}

// A few updates would show none of the machine events, or too many.
Cluster without_events(Cluster cluster) {
  cluster.pauses.clear();
  cluster.departures.clear();
  cluster.eventful_s = 0;
  cluster.churn_until_s = 0;
  return cluster;
}

}  // namespace

Result<MeshPlan> plan_for(const PlanRequest& request) {
  const Cluster calm = without_events(request.cluster);
  const PlanInputs inputs = {.scenario = request.scenario,
                             .cluster = calm,
                             .order = grouped(calm),
                             .vocabulary = request.vocabulary};
  LEEWAY_ASSIGN(const LoadedRecipe base,
                request.scenario.recipe_with({"mesh.stages=1", "mesh.replicas=1", "data.batch=1",
                                              "pipeline.update_every=auto", "sim.speeds=[]"}));
  MeshPlan plan;
  std::vector<Candidate> candidates;
  std::optional<Refusal> nearest;
  for (const MeshChoice& choice :
       choices(request.scenario.worker_count(), base.recipe.model.layers)) {
    ++plan.tried;
    auto made = make_candidate(inputs, choice);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      ++plan.refused;
      keep_nearest(*refusal, nearest);
      continue;
    }
    candidates.push_back(std::get<Candidate>(std::move(made)));
  }
  candidates = finalists(std::move(candidates));
  std::vector<std::pair<MethodResult, size_t>> results;
  for (size_t at = 0; at < candidates.size() && results.size() < kSimulated; ++at) {
    if (request.accepts && !request.accepts(candidates[at].recipe).ok()) {
      keep_nearest(
          {Refusal::Kind::kRecipe, request.accepts(candidates[at].recipe).error().message, 0},
          nearest);
      continue;
    }
    LEEWAY_ASSIGN(MethodResult result, try_out(inputs, candidates[at]));
    results.emplace_back(std::move(result), at);
    if (request.progress && !request.progress(results.size(), kSimulated))
      return stopped_error("stopped");
  }
  if (results.empty()) return nothing_fits(request.scenario, nearest);
  double best = 0;
  for (const auto& [result, at] : results) best = std::max(best, result.tokens_per_second);
  const auto better = [&](const auto& a, const auto& b) {
    const bool first = a.first.tokens_per_second >= kAsGood * best;
    const bool second = b.first.tokens_per_second >= kAsGood * best;
    if (first != second) return first;
    return first ? tokens_of(candidates[a.second]) < tokens_of(candidates[b.second])
                 : a.first.tokens_per_second > b.first.tokens_per_second;
  };
  std::ranges::stable_sort(results, better);
  plan.result = results.front().first;
  for (const auto& [result, at] : results) plan.candidates.push_back(candidates[at]);
  return plan;
}

}  // namespace leeway
