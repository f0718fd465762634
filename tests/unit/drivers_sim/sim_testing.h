// Shared by the simulator's tests: short names for times and workers, and a finished run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "../../support/mesh_without_compute.h"
#include "base/check.h"
#include "drivers/sim/simulation.h"

namespace leeway::sim {

inline constexpr Nanos kMicrosecond = {1'000};
inline constexpr Nanos kMillisecond = {1'000'000};

inline Nanos operator*(int64_t count, Nanos time) { return {count * time.count}; }

// A worker of the first replica.
inline WorkerId stage(int64_t index) { return {.replica = {0}, .stage = {index}}; }

inline std::vector<StageCosts> equal_costs(int64_t stages, const StageCosts& costs) {
  return std::vector<StageCosts>(static_cast<size_t>(stages), costs);
}

// A finished run and its results.
struct Finished {
  Finished(const RunPlan& run_plan, SimulationOptions options, int64_t replicas = 1)
      : plan(with_replicas(run_plan, replicas)),
        workers(make_mesh(plan)),
        simulation(std::move(options)) {
    const Status status = simulation.run(workers, recorder);
    LEEWAY_CHECK(status.ok(), "a simulation without compute cannot fail");
  }
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;

  // Over the middle half of the run: the pipeline has filled and does not drain yet.
  double steady_share(int64_t stage_index) const {
    const int64_t end = simulation.span().end.count;
    return simulation.busy_share(stage(stage_index), {{end / 4}, {end * 3 / 4}});
  }

  RunPlan plan;
  IdleWorkers workers;
  Notebook recorder;
  Simulation simulation;
};

}  // namespace leeway::sim
