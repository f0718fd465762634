#include "simulate/method_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/human.h"
#include "pipeline/schedule.h"
#include "recipe/averaging_costs.h"
#include "recipe/lag_report.h"
#include "recipe/lane_options.h"
#include "recipe/planned_memory.h"
#include "recipe/stage_options.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

constexpr uint64_t kEventsMax = 20'000'000;  // per method: half a minute

// Updates `first` to `last`: whole periods of everything that repeats, with full pipelines.
struct Steady {
  int64_t first = 0;
  int64_t last = 0;
};

// Updates that the pipeline takes to fill, and to drain.
int64_t filling_of(const Recipe& recipe) {
  return Schedule(pipeline_shape(recipe), {0}).delay_max() + 1;
}

Steady steady_part(const Recipe& recipe, int64_t updates, int64_t period) {
  const int64_t edge = filling_of(recipe);
  const int64_t first = std::max(edge, updates / 4);
  const int64_t room = updates - edge - first;
  if (room < 1) return {0, updates};
  return {first, first + (room < period ? room : room / period * period)};
}

// When the replica had done this many updates.
Nanos done_at(const std::vector<Nanos>& times, int64_t updates) {
  return updates == 0 ? Nanos{0} : times[static_cast<size_t>(updates - 1)];
}

// Without machine events: whole periods of each replica, with full pipelines.
sim::Window steady_window(const std::vector<Nanos>& times, const Steady& steady) {
  return {done_at(times, steady.first), done_at(times, steady.last)};
}

// With machine events: all the time until a replica has done all its updates.
sim::Window common_window(const Tally& tally, const sim::Simulation& simulation,
                          const MethodResult& result) {
  sim::Window window = simulation.span();
  for (int64_t r = 0; r < result.recipe.recipe.mesh.replicas; ++r) {
    const std::vector<Nanos>& times = tally.update_times({r});
    if (std::ssize(times) == result.updates) window.end = std::min(window.end, times.back());
  }
  return window;
}

// Means that are evaluated only at the end of the run are not simulated.
int64_t period_of(const MethodRequest& request) {
  const Recipe& recipe = request.recipe.recipe;
  const int64_t every = request.evaluation ? recipe.run.evaluate_every : 0;
  if (every == 0) return updates_period(recipe, 0);
  const int64_t means = averaging_traffic(recipe, request.vocabulary).evaluate_mean_every;
  return updates_period(recipe, means < recipe.run.updates ? std::lcm(every, means) : every);
}

void measure_speed(const Cluster& cluster, const MethodRequest& request, const Tally& tally,
                   const sim::Simulation& simulation, MethodResult& result) {
  const Recipe& recipe = result.recipe.recipe;
  const auto tokens = static_cast<double>(recipe.data.batch * recipe.model.context);
  const auto replicas = static_cast<double>(recipe.mesh.replicas);
  const Steady steady = steady_part(recipe, result.updates, period_of(request));
  const bool eventful = cluster.eventful_s > 0;
  const sim::Window common = common_window(tally, simulation, result);
  if (eventful) result.together = common.end.seconds();
  for (int64_t r = 0; r < recipe.mesh.replicas; ++r) {
    const std::vector<Nanos>& times = tally.update_times({r});
    if (times.empty()) continue;
    const sim::Window window = eventful ? common : steady_window(times, steady);
    if (window.begin >= window.end) continue;
    const int64_t done = eventful ? std::ranges::upper_bound(times, window.end) - times.begin()
                                  : steady.last - steady.first;
    result.tokens_per_second += tokens * static_cast<double>(done) / window.length().seconds();
    for (int64_t s = 0; s < recipe.mesh.stages; ++s) {
      const double share = simulation.busy_share({.replica = {r}, .stage = {s}}, window);
      result.stages[static_cast<size_t>(s)].busy += share / replicas;
      result.busy += share / (replicas * static_cast<double>(recipe.mesh.stages));
    }
  }
}

void measure_traffic(const Cluster& cluster, const Placement& placement,
                     const sim::Simulation& simulation, MethodResult& result) {
  const Mesh mesh = {.stages = result.recipe.recipe.mesh.stages,
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

void measure_averaging(const Tally& tally, MethodResult& result) {
  const auto updates = static_cast<double>(std::max<int64_t>(1, result.updates));
  const auto workers = static_cast<double>(tally.averaging().size());
  const auto add = [&](double amount, PerWorker& all) {
    all.mean += amount / updates / workers;
    all.most = std::max(all.most, amount / updates);
  };
  for (const Tally::Averaging& worker : tally.averaging()) {
    add(static_cast<double>(worker.bytes_sent), result.averaging_bytes);
    add(worker.computing.seconds(), result.averaging_seconds);
  }
}

int64_t evaluation_batches_of(const Recipe& recipe, bool evaluates) {
  if (!evaluates) return 0;
  const int64_t microbatch = microbatch_sequences(recipe);
  return (recipe.run.evaluate_windows + microbatch - 1) / microbatch;
}

// Workers on one machine share its memory.
void note_memory(const Cluster& cluster, const Placement& placement, MethodResult& result) {
  std::map<size_t, double> need;  // by machine
  for (size_t at = 0; at < placement.size(); ++at)
    need[placement[at]] += result.stages[at % result.stages.size()].memory_bytes;
  size_t lacking = 0;
  std::string first;
  for (const auto& [machine, bytes] : need) {
    const Machine& has = cluster.machines[machine];
    if (bytes <= has.memory_bytes || ++lacking > 1) continue;
    first = fmt::format("{} needs {} but has {}", has.name, shown_bytes(bytes),
                        shown_bytes(has.memory_bytes));
  }
  if (lacking == 1) result.notes.push_back(fmt::format("does not fit: {}", first));
  if (lacking > 1)
    result.notes.push_back(fmt::format("does not fit: {}, and {} more", first, lacking - 1));
}

// Notes if too few or too many updates were simulated.
void note_length(const Cluster& cluster, const MethodRequest& request, MethodResult& result) {
  const int64_t period = period_of(request);
  if (cluster.eventful_s == 0 && result.updates % period != 0)
    result.notes.push_back(
        fmt::format("rounds or evaluations repeat every {} updates, but {} were simulated: "
                    "their share is off; set simulate.updates to a multiple",
                    period, result.updates));
  if (result.together < cluster.eventful_s) {
    const std::string_view advice = request.updates > 0          ? "raise simulate.updates"
                                    : result.events > kEventsMax ? "more would take very long"
                                                                 : "raise run.updates";
    result.notes.push_back(
        fmt::format("{} updates take {:.3g} s, too short for the machine events to show (about "
                    "{:.3g} s): {}",
                    result.updates, result.together, cluster.eventful_s, advice));
  }
  if (cluster.churn_until_s > 0 && result.seconds > cluster.churn_until_s)
    result.notes.push_back(
        fmt::format("churn covers only the first {:.3g} s of {:.3g} s: raise churn.up_s, or lower "
                    "simulate.updates",
                    cluster.churn_until_s, result.seconds));
}

void note_lag(MethodResult& result) {
  if (result.lags.empty()) return;
  if (const auto advice = lag_advice(result.recipe.recipe, mean_value(result.lags)))
    result.notes.push_back(*advice);
}

void note_stability(MethodResult& result) {
  const Recipe& recipe = result.recipe.recipe;
  const AveragingMethod method = recipe.averaging.method;
  if (result.lags.empty() ||
      (method != AveragingMethod::kSparse && method != AveragingMethod::kDiloco))
    return;
  if (const auto warning = stability_warning(stability_options(recipe, mean_value(result.lags))))
    result.notes.push_back(*warning);
}

// Whole periods, at least two of which remain after leaving out the first quarter.
int64_t usual_updates(const MethodRequest& request) {
  constexpr int64_t kUsual = 40;
  const Recipe& recipe = request.recipe.recipe;
  const int64_t edge = filling_of(recipe);
  const int64_t period = period_of(request);
  const int64_t enough = (2 * period + edge) * 4 / 3 + edge + 1;
  const int64_t periods = (std::max(kUsual, enough) + period - 1) / period;
  return std::min(periods * period, recipe.run.updates);
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

int64_t updates_period(const Recipe& recipe, int64_t evaluation) {
  constexpr int64_t kPeriodMax = 2000;
  int64_t period = 1;
  const auto with = [&](int64_t every) {
    if (every < 1) return;
    const int64_t both = std::lcm(period, every);
    period = both <= kPeriodMax ? both : std::max(period, every);
  };
  with(evaluation);
  if (recipe.mesh.replicas == 1 || recipe.averaging.method == AveragingMethod::kNone) return period;
  with(round_interval(recipe));
  return period;
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
  // With machine events, simulate until they show rather than a number of updates.
  const bool timed = cluster.eventful_s > 0 && request.updates == 0;
  const int64_t usual = usual_updates(request);
  result.updates = timed                 ? recipe.run.updates
                   : request.updates > 0 ? std::min(request.updates, recipe.run.updates)
                                         : usual;
  RunPlan plan =
      make_plan(recipe, request.vocabulary, evaluation_batches_of(recipe, request.evaluation));
  plan.last_update = result.updates;
  const Workers workers = make_workers_without_compute(plan);
  const sim::SimulationOptions options =
      simulation_options(cluster, request.placement, recipe, request.vocabulary);
  sim::Simulation simulation(options);
  bool enough = false;
  Tally tally(plan, options.costs, [&](int64_t done) {
    const double time = simulation.clock().now().seconds() / cluster.eventful_s;
    enough = timed && ((time >= 1 && done >= usual) || simulation.events() > kEventsMax);
    const double share = static_cast<double>(done) / static_cast<double>(result.updates);
    return !enough && (!request.progress || request.progress(timed ? time : share));
  });
  if (const Status status = simulation.run(workers, tally); !status.ok()) {
    if (status.error().kind == ErrorKind::kUsage)
      return usage_error(fmt::format("{}: {}", request.name, status.error().message));
    result.failure = fmt::format("stuck after {:.3g} s of simulated time: {}",
                                 simulation.span().length().seconds(), status.error().message);
    return result;
  }
  if (tally.abandoned() && !enough) return stopped_error("stopped");
  result.seconds = simulation.span().length().seconds();
  result.bytes = tally.bytes();
  result.lags = tally.lags();
  result.rounds = tally.rounds();
  result.events = simulation.events();
  for (size_t s = 0; s < result.stages.size(); ++s) result.stages[s].delays = tally.delays()[s];
  measure_speed(cluster, request, tally, simulation, result);
  measure_traffic(cluster, request.placement, simulation, result);
  if (enough) result.updates = tally.updates() / recipe.mesh.replicas;
  measure_averaging(tally, result);
  note_length(cluster, request, result);
  note_lag(result);
  note_stability(result);
  return result;
}

}  // namespace leeway
