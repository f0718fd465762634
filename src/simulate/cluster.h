// A scenario's machines one by one, and the simulator's options for a recipe on them.
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
  double update_tflops = 0;  // in an optimizer step and in averaging
  double memory_bytes = 0;
  double price_per_hour = 0;
  int64_t workers = 1;
  int64_t cores = 0;  // 0: as many as workers
};

// A time in which a machine does nothing.
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
  std::vector<sim::LinkOptions> between;                      // sites x sites
  std::vector<MachineLink> exceptions;                        // between two machines
  std::vector<std::shared_ptr<const sim::LinkTrace>> traces;  // owned here, used by links
  std::vector<MachinePause> pauses;                           // stalls, late joins, churn
  std::vector<std::pair<size_t, Nanos>> departures;
  double eventful_s = 0;     // time to simulate so that all events show; 0: no events
  double churn_until_s = 0;  // no churn was drawn after this

  const sim::LinkOptions& link(size_t from, size_t to) const;  // of two different machines
};

Cluster cluster_of(const Scenario& scenario);

// The machine of each worker, in mesh order.
using Placement = std::vector<size_t>;

// Fills machines in order, each with as many workers as it has room for. By rows, a pipeline is on
// neighbouring machines; by columns, the replicas of a stage are. An error if there are not enough.
Result<Placement> place(const Cluster& cluster, const std::vector<size_t>& order,
                        const MeshOptions& mesh, bool columns);

// All machines, in the scenario's order.
std::vector<size_t> machine_order(const Cluster& cluster);

// What a stage costs on this machine; `unit` is its cost at 1 TFLOP/s.
sim::StageCosts costs_on(const Machine& machine, const sim::StageCosts& unit);

sim::SimulationOptions simulation_options(const Cluster& cluster, const Placement& placement,
                                          const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
