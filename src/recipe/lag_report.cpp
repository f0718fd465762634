#include "recipe/lag_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/depth_plan.h"
#include "recipe/averaging_costs.h"
#include "recipe/depth_report.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

constexpr double kShortLag = 0.5;  // updates; docs/results/averaging.md

// After every update: that is where a lag below one was measured.
bool merges_on_arrival(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  return recipe.mesh.replicas > 1 && averaging.method != AveragingMethod::kNone &&
         averaging.interval == 1 && averaging.merge == MergePolicy::kOnArrival;
}

// A contribution goes to its owners and its mean comes back, over links of their own.
double round_trip_seconds(const Recipe& recipe, int64_t vocabulary) {
  const SimOptions& sim = recipe.sim;
  const double there_and_back = 2e-3 * (sim.latency_ms + sim.jitter_ms);
  if (sim.bandwidth_mbit <= 0) return there_and_back;
  double most = 0;
  for (const StageTraffic& stage : averaging_traffic(recipe, vocabulary).stages) {
    most = std::max(most, stage.round_bytes);
  }
  const auto links = static_cast<double>(recipe.mesh.replicas - 1);
  return there_and_back + 8e-6 * most / links / sim.bandwidth_mbit;
}

}  // namespace

std::optional<std::string> lag_advice(const Recipe& recipe, double lag) {
  if (!merges_on_arrival(recipe) || lag <= kShortLag) return std::nullopt;
  const auto every = static_cast<double>(recipe.pipeline.update_every);
  const auto enough = static_cast<int64_t>(std::ceil(lag * every / kShortLag));
  const int64_t microbatch = microbatch_sequences(recipe);
  return fmt::format(
      "means are merged {:.2g} updates after sending: pipeline.update_every = {} and data.batch = "
      "{} "
      "({} microbatches of {}) would make that at most half an update",
      lag, enough, enough * microbatch, enough, microbatch);
}

std::string lag_report(const Recipe& recipe, int64_t vocabulary) {
  if (recipe.run.driver != DriverName::kSim || !merges_on_arrival(recipe)) return "";
  const int64_t every = recipe.pipeline.update_every;
  const PipelineTimes times = simulated_times(recipe, vocabulary);
  const double busy = busy_share(pipeline_shape(recipe), times);
  if (busy <= 0) return "";
  const double slot = plan_depth(times, every).slot.seconds() / busy;
  const double microbatches = std::ceil(round_trip_seconds(recipe, vocabulary) / slot);
  const double lag = std::max(1.0, microbatches) / static_cast<double>(every);
  const auto advice = lag_advice(recipe, lag);
  if (advice) return fmt::format("note: {}\n", *advice);
  return fmt::format("simulated: means are merged about {:.2g} updates after sending\n", lag);
}

}  // namespace leeway
