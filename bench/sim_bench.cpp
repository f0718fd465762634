// The simulator without arithmetic at the size it is designed for: 10,000 workers in 100 pipelines
// of 100 stages, K = 1, 100 updates each, over links with latency, bandwidth and jitter.
//
//   sim_bench
//
// prints one JSON object: {"workers": ..., "events": ..., "seconds": ..., "events_per_second": ...,
// "virtual_seconds": ..., "peak_rss_bytes": ...}. An event is a piece of work that ended or a
// message that arrived.
#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "../tests/support/no_recorder.h"
#include "base/process.h"
#include "drivers/sim/simulation.h"
#include "run/mesh_model.h"

namespace {

constexpr int64_t kStages = 100;
constexpr int64_t kReplicas = 100;
constexpr int64_t kUpdates = 100;

leeway::sim::SimulationOptions options() {
  const leeway::sim::StageCosts costs = {
      .forward = {1'000'000}, .backward = {2'000'000}, .update = {50'000}};
  leeway::sim::SimulationOptions made;
  made.costs.assign(kStages, costs);
  made.links = {.seed = 1,
                .all = {.latency = {500'000}, .bytes_per_second = 1.25e9, .jitter = {100'000}}};
  return made;
}

}  // namespace

int main() {
  leeway::RunPlan plan;
  plan.shape = {.stages = kStages, .update_every = 1};
  plan.last_update = kUpdates;
  plan.run_updates = kUpdates;
  plan.saves = false;
  plan.activation_bytes = 65'536;
  plan.replicas = plan.evaluation.replicas = kReplicas;

  const auto start = std::chrono::steady_clock::now();
  const auto workers = leeway::make_workers_without_compute(plan);
  leeway::sim::Simulation simulation(options());
  leeway::NoRecorder recorder;
  const leeway::Status status = simulation.run(workers, recorder);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!status.ok()) return fmt::print(stderr, "{}\n", status.error().message), 1;

  fmt::print(
      "{{\"workers\": {}, \"events\": {}, \"seconds\": {:.3f}, \"events_per_second\": {:.6g}, "
      "\"virtual_seconds\": {:.3f}, \"peak_rss_bytes\": {}}}\n",
      workers.size(), simulation.events(), seconds.count(),
      static_cast<double>(simulation.events()) / seconds.count(),
      simulation.span().length().seconds(), leeway::peak_rss_bytes());
  return 0;
}
