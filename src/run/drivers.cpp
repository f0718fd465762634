#include "run/drivers.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/process.h"
#include "config/faults.h"
#include "drivers/sim/simulation.h"
#include "drivers/threads/threads.h"
#include "recipe/stage_costs.h"

namespace leeway {
namespace {

Nanos from_milliseconds(double milliseconds) { return {static_cast<int64_t>(milliseconds * 1e6)}; }

std::vector<PlannedFault> faults_of(const Recipe& recipe) {
  using Kind = PlannedFault::Kind;
  std::vector<PlannedFault> faults;
  for (const std::string& text : recipe.run.faults) {
    const std::optional<RunFault> fault = parse_run_fault(text);
    LEEWAY_CHECK(fault, "the recipe was checked");
    constexpr std::array<Kind, 4> kKinds = {Kind::kLose, Kind::kLeave, Kind::kReturn,
                                            Kind::kCoordinatorLost};
    faults.push_back({.kind = kKinds[static_cast<size_t>(fault->kind)],
                      .replica = {fault->replica},
                      .update = fault->update,
                      .with_disk = fault->with_disk});
  }
  return faults;
}

sim::SimulationOptions simulation_options(const Recipe& recipe, int64_t vocabulary) {
  return {.costs = sim_costs(recipe, vocabulary),
          .links = {.seed = static_cast<uint64_t>(recipe.run.seed),
                    .all = {.latency = from_milliseconds(recipe.sim.latency_ms),
                            .bytes_per_second = recipe.sim.bandwidth_mbit * 1e6 / 8,
                            .jitter = from_milliseconds(recipe.sim.jitter_ms)}},
          .notice = from_milliseconds(recipe.sim.notice_ms),
          .planned = faults_of(recipe),
          .save_time = from_milliseconds(recipe.sim.save_ms)};
}

}  // namespace

int threads_per_worker(const Recipe& recipe) {
  if (recipe.run.threads_per_worker > 0) return static_cast<int>(recipe.run.threads_per_worker);
  return recipe.mesh.stages * recipe.mesh.replicas > 1 ? 1 : static_cast<int>(core_count());
}

int64_t computing_threads(const Recipe& recipe) {
  if (recipe.run.driver == DriverName::kSim || recipe.run.device.starts_with("cuda")) return 0;
  return recipe.mesh.stages * recipe.mesh.replicas * threads_per_worker(recipe);
}

std::unique_ptr<Driver> make_driver(const Recipe& recipe, int64_t vocabulary) {
  switch (recipe.run.driver) {
    case DriverName::kThreads:
      return std::make_unique<threads::Threads>(threads_per_worker(recipe), faults_of(recipe));
    case DriverName::kSim:
      return std::make_unique<sim::Simulation>(simulation_options(recipe, vocabulary));
    case DriverName::kZmq:
    case DriverName::kMpi:
      LEEWAY_UNREACHABLE("train() refuses a driver of many processes");
  }
  LEEWAY_UNREACHABLE("the table of keys knows all drivers");
}

}  // namespace leeway
