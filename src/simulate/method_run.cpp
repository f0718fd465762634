#include "simulate/method_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "pipeline/schedule.h"
#include "worker/averaging_costs.h"
#include "worker/averaging_parts.h"
#include "worker/mesh.h"
#include "worker/planned_memory.h"
#include "worker/recipe_parts.h"

namespace leeway {
namespace {

constexpr double kSecondsMax = 3e9;  // a third of what the clock counts

// Updates from `first` on, up to `last`: whole periods of whatever repeats, with full pipelines.
struct Steady {
  int64_t first = 0;
  int64_t last = 0;
};

// Rounds of all lanes come round again after so many updates.
int64_t period_of(const Recipe& recipe) {
  if (recipe.mesh.replicas == 1 || recipe.averaging.method == AveragingMethod::kNone) return 1;
  return std::max({int64_t{1}, round_interval(recipe), recipe.averaging.repair_every});
}

// Updates until the pipeline is full, and that it takes to drain.
int64_t filling_of(const Recipe& recipe) {
  return Schedule(pipeline_shape(recipe), {0}).delay_max() + 1;
}

Steady steady_part(const Recipe& recipe, int64_t updates) {
  const int64_t edge = filling_of(recipe);
  const int64_t first = std::max(edge, updates / 4);
  const int64_t room = updates - edge - first;
  if (room < 1) return {0, updates};
  const int64_t period = period_of(recipe);
  return {first, first + (room < period ? room : room / period * period)};
}

// The replica's time of having done so many updates.
Nanos done_at(const std::vector<Nanos>& times, int64_t updates) {
  return updates == 0 ? Nanos{0} : times[static_cast<size_t>(updates - 1)];
}

void measure_speed(const Tally& tally, const sim::Simulation& simulation, MethodResult& result) {
  const Recipe& recipe = result.recipe.recipe;
  const auto tokens = static_cast<double>(recipe.data.batch * recipe.model.context);
  const auto stages = static_cast<size_t>(recipe.mesh.stages);
  for (int64_t r = 0; r < recipe.mesh.replicas; ++r) {
    const std::vector<Nanos>& times = tally.update_times({r});
    if (times.empty()) continue;
    if (std::ssize(times) < result.updates) {  // it has lost a machine for good
      const double span = simulation.span().length().seconds();
      result.tokens_per_second += tokens * static_cast<double>(times.size()) / span;
      continue;
    }
    const Steady steady = steady_part(recipe, std::ssize(times));
    const sim::Window window = {done_at(times, steady.first), done_at(times, steady.last)};
    if (window.begin >= window.end) continue;
    result.tokens_per_second +=
        tokens * static_cast<double>(steady.last - steady.first) / window.length().seconds();
    for (size_t s = 0; s < stages; ++s) {
      const WorkerId worker = {.replica = {r}, .stage = {static_cast<int64_t>(s)}};
      const double share = simulation.busy_share(worker, window);
      result.stages[s].busy += share / static_cast<double>(recipe.mesh.replicas);
      result.busy += share / static_cast<double>(recipe.mesh.replicas * recipe.mesh.stages);
    }
  }
}

void measure_traffic(const Cluster& cluster, const Placement& placement,
                     const sim::Simulation& simulation, MethodResult& result) {
  const sim::Mesh mesh = {.stages = result.recipe.recipe.mesh.stages,
                          .replicas = result.recipe.recipe.mesh.replicas};
  std::map<std::pair<size_t, size_t>, SiteTraffic> by_sites;
  std::map<std::pair<size_t, size_t>, int64_t> by_machines;
  for (const sim::LinkStatistics& link : simulation.links()) {
    const size_t from = placement[mesh.index(link.from)];
    const size_t to = placement[mesh.index(link.to)];
    if (from == to) continue;
    const size_t from_site = cluster.machines[from].site;
    const size_t to_site = cluster.machines[to].site;
    SiteTraffic& traffic = by_sites[{from_site, to_site}];
    traffic.from = from_site;
    traffic.to = to_site;
    traffic.messages += link.messages;
    traffic.bytes += link.payload_bytes;
    by_machines[{from, to}] += link.payload_bytes;
  }
  for (const auto& [sites, traffic] : by_sites) result.traffic.push_back(traffic);
  for (const auto& [machines, bytes] : by_machines) {
    if (bytes <= result.busiest.bytes) continue;
    result.busiest = {cluster.machines[machines.first].name, cluster.machines[machines.second].name,
                      bytes};
  }
}

int64_t evaluation_batches_of(const Recipe& recipe, bool evaluates) {
  if (!evaluates) return 0;
  const int64_t microbatch = microbatch_sequences(recipe);
  return (recipe.run.evaluate_windows + microbatch - 1) / microbatch;
}

// Workers of one machine share its memory.
void note_memory(const Cluster& cluster, const Placement& placement, MethodResult& result) {
  std::map<size_t, double> need;  // by machine
  for (size_t at = 0; at < placement.size(); ++at)
    need[placement[at]] += result.stages[at % result.stages.size()].memory_bytes;
  size_t lacking = 0;
  std::string first;
  for (const auto& [machine, bytes] : need) {
    const Machine& has = cluster.machines[machine];
    if (bytes <= has.memory_bytes || ++lacking > 1) continue;
    first = fmt::format("{} needs {:.3g} GB and has {:.3g}", has.name, bytes * 1e-9,
                        has.memory_bytes * 1e-9);
  }
  if (lacking == 1) result.notes.push_back(fmt::format("does not fit: {}", first));
  if (lacking > 1)
    result.notes.push_back(fmt::format("does not fit: {}, and so do {} more", first, lacking - 1));
}

void note_stability(MethodResult& result) {
  const Recipe& recipe = result.recipe.recipe;
  const AveragingMethod method = recipe.averaging.method;
  if (result.lags.empty() ||
      (method != AveragingMethod::kSparse && method != AveragingMethod::kDiloco))
    return;
  if (const auto warning = stability_warning(stability_options(recipe, mean_of(result.lags))))
    result.notes.push_back(*warning);
}

}  // namespace

double MethodResult::price_per_million_tokens() const {
  if (tokens_per_second == 0) return 0;
  return price_per_hour / 3600 / tokens_per_second * 1e6;
}

double MethodResult::worker_memory() const {
  double most = 0;
  for (const StageResult& stage : stages) most = std::max(most, stage.memory_bytes);
  return most;
}

const std::vector<LossPoint>& MethodResult::curve() const {
  return evaluations.empty() ? losses : evaluations;
}

int64_t simulated_updates(const Recipe& recipe, int64_t asked) {
  constexpr int64_t kUsual = 40;
  const int64_t edge = filling_of(recipe);
  const int64_t period = period_of(recipe);
  // A quarter is left out at the beginning, so that two whole periods are left.
  const int64_t enough = (2 * period + edge) * 4 / 3 + edge + 1;
  return std::min(asked > 0 ? asked : std::max(kUsual, enough), recipe.run.updates);
}

Status check_clock(const Cluster& cluster, const MethodRequest& request, int64_t updates) {
  const Recipe& recipe = request.recipe.recipe;
  const std::vector<StageOptions> stages = stage_options(recipe, request.vocabulary);
  const auto microbatches = static_cast<double>(recipe.pipeline.update_every);
  const double tokens = static_cast<double>(recipe.data.batch * recipe.model.context);
  const ModelShape& shape = stages.front().shape;
  double slowest = cluster.machines[request.placement.front()].tflops;
  for (const size_t machine : request.placement)
    slowest = std::min(slowest, cluster.machines[machine].tflops);
  double thinnest = 1e18;  // bytes per second
  double longest = 0;
  const auto look_at = [&](const sim::LinkOptions& link) {
    if (link.bytes_per_second > 0) thinnest = std::min(thinnest, link.bytes_per_second);
    longest = std::max(longest, (link.latency + link.jitter).seconds());
  };
  for (const sim::LinkOptions& link : cluster.between) look_at(link);
  for (const MachineLink& link : cluster.exceptions) look_at(link.options);
  for (const sim::LineOptions& line : cluster.lines) {
    for (const double rate : {line.up_bytes_per_second, line.down_bytes_per_second})
      if (rate > 0) thinnest = std::min(thinnest, rate);
  }
  const double compute = 20 * slice_cost(shape, whole_model(shape)) * tokens / (slowest * 1e12);
  const double activations = tokens * static_cast<double>(shape.width) * 8;
  const double averaging = averaging_traffic(recipe, request.vocabulary).allreduce_bytes;
  const auto hops = static_cast<double>(recipe.mesh.stages);
  const double update = compute + (activations * 4 * hops + 2 * averaging) / thinnest +
                        longest * hops * 4 * (microbatches + 2);
  const double seconds = update * static_cast<double>(updates);
  if (seconds < kSecondsMax) return {};
  return usage_error(
      fmt::format("{} could take {:.3g} years of simulated time: use faster machines or links, or "
                  "fewer updates ({})",
                  request.name, seconds / (365.25 * 86400), updates));
}

MethodResult described(const Cluster& cluster, const MethodRequest& request) {
  MethodResult result;
  result.name = request.name;
  result.recipe = request.recipe;
  for (const StageMemory& memory : planned_memory(request.recipe.recipe, request.vocabulary)) {
    result.stages.push_back({.busy = 0, .delays = {}, .memory_bytes = memory.total()});
    result.parameters += memory.parameters;
  }
  const std::set<size_t> used(request.placement.begin(), request.placement.end());
  for (const size_t machine : used)
    result.price_per_hour += cluster.machines[machine].price_per_hour;
  note_memory(cluster, request.placement, result);
  return result;
}

Result<MethodResult> simulate_method(const Cluster& cluster, const MethodRequest& request) {
  const Recipe& recipe = request.recipe.recipe;
  MethodResult result = described(cluster, request);
  result.updates = simulated_updates(recipe, request.updates);
  LEEWAY_TRY(check_clock(cluster, request, result.updates));
  RunPlan plan =
      make_plan(recipe, request.vocabulary, evaluation_batches_of(recipe, request.evaluation));
  plan.last_update = result.updates;
  const Workers workers = make_workers_without_numbers(plan, plan.replicas);
  sim::Simulation simulation(
      simulation_options(cluster, request.placement, recipe, request.vocabulary));
  Tally tally(plan, request.progress);
  if (const Status status = simulation.run(workers, tally); !status.ok()) {
    result.failure = fmt::format("stands still from {:.3g} s of simulated time on: {}",
                                 simulation.span().length().seconds(), status.error().message);
    return result;
  }
  if (tally.abandoned()) return Error{"stopped"};
  result.seconds = simulation.span().length().seconds();
  result.bytes = tally.bytes();
  result.lags = tally.lags();
  result.rounds = tally.rounds();
  result.events = simulation.events();
  for (size_t s = 0; s < result.stages.size(); ++s) result.stages[s].delays = tally.delays()[s];
  measure_speed(tally, simulation, result);
  measure_traffic(cluster, request.placement, simulation, result);
  note_stability(result);
  return result;
}

}  // namespace leeway
