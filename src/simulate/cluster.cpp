#include "simulate/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/rng.h"
#include "recipe/stage_costs.h"

namespace leeway {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
// Churn of one machine: enough for any practical simulation.
constexpr int64_t kPausesMax = 2000;
constexpr int64_t kAllPausesMax = 4'000'000;  // of a large cluster, whose simulations are short
constexpr double kSecondsMax = 1e9;           // 30 years: far from the end of the clock

Nanos from_seconds(double seconds) { return {std::llround(seconds * 1e9)}; }
Nanos from_milliseconds(double milliseconds) { return {std::llround(milliseconds * 1e6)}; }

sim::LinkOptions link_of(const SiteLink& link, Cluster& cluster) {
  sim::LinkOptions options = {.latency = from_milliseconds(link.latency_ms),
                              .bytes_per_second = link.bandwidth_mbit * kBytesPerMegabit,
                              .jitter = from_milliseconds(link.jitter_ms)};
  if (link.points.empty()) return options;
  std::vector<sim::LinkTrace::Point> points;
  for (const TracePoint& point : link.points) {
    points.push_back({.at = from_seconds(point.seconds),
                      .bytes_per_second = point.bandwidth_mbit * kBytesPerMegabit,
                      .latency = from_milliseconds(point.latency_ms)});
  }
  cluster.traces.push_back(std::make_shared<const sim::LinkTrace>(std::move(points)));
  options.trace = cluster.traces.back().get();
  return options;
}

// A group's name stands for all its machines.
std::vector<size_t> machines_called(const Scenario& scenario, std::string_view name) {
  std::vector<size_t> found;
  size_t first = 0;
  for (const MachineGroup& group : scenario.machines) {
    for (int64_t at = 1; at <= group.count; ++at) {
      if (name == group.name || (group.count > 1 && name == fmt::format("{}-{}", group.name, at)))
        found.push_back(first + static_cast<size_t>(at - 1));
    }
    first += static_cast<size_t>(group.count);
  }
  return found;
}

size_t site_index(const Scenario& scenario, std::string_view name) {
  const auto is_it = [&](const Site& site) { return site.name == name; };
  return static_cast<size_t>(std::ranges::find_if(scenario.sites, is_it) - scenario.sites.begin());
}

void add_machines(const Scenario& scenario, Cluster& cluster) {
  for (const MachineGroup& group : scenario.machines) {
    const size_t site = site_index(scenario, group.site);
    for (int64_t at = 1; at <= group.count; ++at) {
      cluster.machines.push_back(
          {.name = group.count == 1 ? group.name : fmt::format("{}-{}", group.name, at),
           .site = site,
           .tflops = group.tflops,
           .update_tflops = group.update_tflops > 0 ? group.update_tflops : group.tflops,
           .memory_bytes = group.memory_gb * 1e9,
           .price_per_hour = group.price_per_hour,
           .workers = group.workers,
           .cores = group.cores});
      cluster.lines.push_back(
          {.up_bytes_per_second = scenario.sites[site].uplink_mbit * kBytesPerMegabit,
           .down_bytes_per_second = scenario.sites[site].downlink_mbit * kBytesPerMegabit});
    }
  }
}

void add_links(const Scenario& scenario, Cluster& cluster) {
  const size_t sites = scenario.sites.size();
  cluster.between.resize(sites * sites);
  for (size_t at = 0; at < sites; ++at) {
    const Site& site = scenario.sites[at];
    cluster.sites.push_back(site.name);
    cluster.between[at * sites + at] = {.latency = from_milliseconds(site.latency_ms),
                                        .bytes_per_second = site.bandwidth_mbit * kBytesPerMegabit,
                                        .jitter = from_milliseconds(site.jitter_ms)};
  }
  for (const SiteLink& link : scenario.links) {
    const sim::LinkOptions options = link_of(link, cluster);
    const size_t a = site_index(scenario, link.between[0]);
    const size_t b = site_index(scenario, link.between[1]);
    if (a < sites && b < sites) {
      cluster.between[a * sites + b] = cluster.between[b * sites + a] = options;
      continue;
    }
    for (const size_t from : machines_called(scenario, link.between[0])) {
      for (const size_t to : machines_called(scenario, link.between[1])) {
        cluster.exceptions.push_back({from, to, options});
        cluster.exceptions.push_back({to, from, options});
      }
    }
  }
}

void add_pause(size_t machine, double begin, double length, Cluster& cluster) {
  if (begin > kSecondsMax || from_seconds(length).count == 0) return;
  cluster.pauses.push_back(
      {machine, from_seconds(begin), from_seconds(std::min(length, kSecondsMax))});
}

// Times between independent events are exponentially distributed.
void add_churn(const Churn& churn, Cluster& cluster) {
  if (churn.up_s == 0) return;
  const auto machines = static_cast<int64_t>(cluster.machines.size());
  const int64_t pauses = std::clamp<int64_t>(kAllPausesMax / machines, 20, kPausesMax);
  cluster.churn_until_s = kSecondsMax;
  for (size_t machine = 0; machine < cluster.machines.size(); ++machine) {
    const RandomKey key = {.seed = static_cast<uint64_t>(churn.seed),
                           .stream = Stream::kChurn,
                           .name = static_cast<uint64_t>(machine)};
    const auto draw = [&](double mean, int64_t counter) {
      return -mean * std::log1p(-random_uniform(key, static_cast<uint64_t>(counter)));
    };
    double now = 0;
    for (int64_t at = 0; at < pauses && now < kSecondsMax; ++at) {
      now += draw(churn.up_s, 2 * at);
      const double down = draw(churn.down_s, 2 * at + 1);
      add_pause(machine, now, down, cluster);
      now += down;
    }
    cluster.churn_until_s = std::min(cluster.churn_until_s, now);
  }
}

// Twice the time of the last single event; with churn, at least a few lives of every machine.
double eventful_seconds(const Scenario& scenario) {
  constexpr double kLives = 3;
  double last = 0;
  for (const auto* events : {&scenario.stalls, &scenario.joins, &scenario.departures}) {
    for (const MachineEvent& event : *events) last = std::max(last, event.at_s + event.for_s);
  }
  const Churn& churn = scenario.churn;
  return std::max(2 * last, churn.up_s == 0 ? 0 : kLives * (churn.up_s + churn.down_s));
}

}  // namespace

const sim::LinkOptions& Cluster::link(size_t from, size_t to) const {
  for (const MachineLink& exception : exceptions) {
    if (exception.from == from && exception.to == to) return exception.options;
  }
  return between[machines[from].site * sites.size() + machines[to].site];
}

Cluster cluster_of(const Scenario& scenario) {
  Cluster cluster;
  add_machines(scenario, cluster);
  add_links(scenario, cluster);
  for (const MachineEvent& stall : scenario.stalls) {
    for (const size_t machine : machines_called(scenario, stall.machine))
      add_pause(machine, stall.at_s, stall.for_s, cluster);
  }
  for (const MachineEvent& join : scenario.joins) {
    for (const size_t machine : machines_called(scenario, join.machine))
      add_pause(machine, 0, join.at_s, cluster);
  }
  for (const MachineEvent& departure : scenario.departures) {
    for (const size_t machine : machines_called(scenario, departure.machine))
      cluster.departures.emplace_back(machine, from_seconds(departure.at_s));
  }
  add_churn(scenario.churn, cluster);
  cluster.eventful_s = eventful_seconds(scenario);
  return cluster;
}

std::vector<size_t> machine_order(const Cluster& cluster) {
  std::vector<size_t> order;
  for (size_t at = 0; at < cluster.machines.size(); ++at) order.push_back(at);
  return order;
}

Result<Placement> place(const Cluster& cluster, const std::vector<size_t>& order,
                        const MeshOptions& mesh, bool columns) {
  std::vector<size_t> seats;
  for (const size_t machine : order) {
    if (std::ssize(seats) >= mesh.stages * mesh.replicas) break;
    for (int64_t at = 0; at < cluster.machines[machine].workers; ++at) seats.push_back(machine);
  }
  const auto stages = static_cast<size_t>(mesh.stages);
  const auto replicas = static_cast<size_t>(mesh.replicas);
  if (seats.size() < stages * replicas)
    return usage_error(
        fmt::format("{} stages of {} replicas are {} workers, but the machines have room for {}: "
                    "add machines, or lower mesh.stages or mesh.replicas",
                    stages, replicas, stages * replicas, seats.size()));
  Placement placement;
  for (size_t r = 0; r < replicas; ++r) {
    for (size_t s = 0; s < stages; ++s)
      placement.push_back(seats[columns ? s * replicas + r : r * stages + s]);
  }
  return placement;
}

sim::StageCosts costs_on(const Machine& machine, const sim::StageCosts& unit) {
  sim::StageCosts costs = sim::at_speed(unit, machine.tflops);
  // Averaging moves memory, as an update does.
  const sim::StageCosts update = sim::at_speed(unit, machine.update_tflops);
  costs.update = update.update;
  costs.rounds = update.rounds;
  costs.copies = update.copies;
  return costs;
}

sim::SimulationOptions simulation_options(const Cluster& cluster, const Placement& placement,
                                          const Recipe& recipe, int64_t vocabulary) {
  const std::vector<sim::StageCosts> unit = unit_costs(recipe, vocabulary);
  const Mesh mesh = {.stages = recipe.mesh.stages, .replicas = recipe.mesh.replicas};
  sim::SimulationOptions options;
  std::map<size_t, std::vector<WorkerId>> workers;  // by machine
  bool shared = false;
  for (size_t at = 0; at < placement.size(); ++at) {
    const Machine& machine = cluster.machines[placement[at]];
    options.costs.push_back(costs_on(machine, unit[at % unit.size()]));
    workers[placement[at]].push_back(mesh.id(at));
    shared = shared || (machine.cores > 0 && machine.cores < machine.workers);
  }
  sim::Places& places = options.links.places;
  options.links.seed = static_cast<uint64_t>(recipe.run.seed);
  places.machine_of = placement;
  places.lines = cluster.lines;
  places.sites = cluster.sites.size();
  places.between = cluster.between;
  for (const Machine& machine : cluster.machines) {
    places.site_of.push_back(machine.site);
    if (shared) options.cores.push_back(machine.cores);
  }
  for (const MachineLink& link : cluster.exceptions) {
    for (const WorkerId from : workers[link.from]) {
      for (const WorkerId to : workers[link.to])
        options.links.exceptions.push_back({from, to, link.options});
    }
  }
  for (const MachinePause& pause : cluster.pauses) {
    for (const WorkerId worker : workers[pause.machine])
      options.pauses.push_back({worker, pause.begin, pause.length});
  }
  for (const auto& [machine, at] : cluster.departures) {
    for (const WorkerId worker : workers[machine]) options.departures.push_back({worker, at});
  }
  // As long as a few missing heartbeats take.
  options.notice = from_seconds(10);
  options.may_stand_still = !cluster.departures.empty();
  return options;
}

}  // namespace leeway
