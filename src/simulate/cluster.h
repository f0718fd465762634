// A scenario's machines one by one, and what the simulator makes of them for a recipe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/sim/simulation.h"
#include "simulate/scenario.h"

namespace leeway {

struct Machine {
  std::string name;
  size_t site = 0;
  double tflops = 0;
  double update_tflops = 0;  // in an optimizer's step
  double memory_bytes = 0;
  double price_per_hour = 0;
  int64_t workers = 1;
  int64_t cores = 0;  // 0: as many as workers
};

// Something that a machine goes through.
struct MachinePause {
  size_t machine = 0;
  Nanos begin;
  Nanos length;
};

struct MachineLink {
  size_t from = 0;
  size_t to = 0;
  sim::LinkOptions options;
};

struct Cluster {
  std::vector<Machine> machines;
  std::vector<std::string> sites;
  std::vector<sim::LineOptions> lines;                        // by machine
  std::vector<sim::LinkOptions> between;                      // by site, then by site
  std::vector<MachineLink> exceptions;                        // between two machines
  std::vector<std::shared_ptr<const sim::LinkTrace>> traces;  // that links refer to
  std::vector<MachinePause> pauses;                           // stalls, late joins, churn
  std::vector<std::pair<size_t, Nanos>> departures;
  double eventful_s = 0;     // so long it takes to see what happens to machines; 0: nothing
  double churn_until_s = 0;  // beyond that it was not drawn

  const sim::LinkOptions& link(size_t from, size_t to) const;  // of two machines that are not one
};

Cluster cluster_of(const Scenario& scenario);

// The machine of each worker, in the order of the mesh.
using Placement = std::vector<size_t>;

// Machines in their order, each as often as it has room: by rows, a pipeline is on neighbours; by
// columns, the replicas of a stage are. An error: there are not enough.
Result<Placement> place(const Cluster& cluster, const std::vector<size_t>& order,
                        const MeshOptions& mesh, bool columns);

// All machines, as the scenario names them.
std::vector<size_t> machine_order(const Cluster& cluster);

// What a stage costs on this machine; `unit` is its cost at 1 TFLOP/s.
sim::StageCosts costs_on(const Machine& machine, const sim::StageCosts& unit);

sim::SimulationOptions simulation_options(const Cluster& cluster, const Placement& placement,
                                          const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
