#include "recipe/depth_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "drivers/sim/links.h"
#include "recipe/stage_costs.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

std::string shown(Nanos time) {
  const double nanos = static_cast<double>(time.count);
  if (nanos < 1e3) return fmt::format("{} ns", time.count);
  if (nanos < 1e6) return fmt::format("{:.3g} us", nanos * 1e-3);
  if (nanos < 1e9) return fmt::format("{:.3g} ms", nanos * 1e-6);
  return fmt::format("{:.4g} s", nanos * 1e-9);
}

int64_t automatic_update_every(const Recipe& recipe, int64_t extra_per_hop) {
  return (recipe.mesh.stages - 1) * (1 + extra_per_hop) + 1;
}

// More depth comes with a larger K, which makes slots a little shorter, which may need more depth.
int64_t depth_needed(const LoadedRecipe& loaded, const PipelineTimes& times) {
  const Recipe& recipe = loaded.recipe;
  int64_t extra = plan_depth(times, recipe.pipeline.update_every).extra_per_hop;
  if (loaded.is_given("pipeline.update_every")) return extra;
  for (int64_t more = extra;; extra = more) {
    more = plan_depth(times, automatic_update_every(recipe, extra)).extra_per_hop;
    if (more <= extra) return extra;
  }
}

// More depth needs one key and, where update_every follows it, a batch that still divides into
// microbatches of the current size: another size would need another depth.
std::string deeper(const LoadedRecipe& loaded, int64_t extra_per_hop) {
  const Recipe& recipe = loaded.recipe;
  constexpr int64_t kExtraMax = 1000;  // what the key allows
  if (extra_per_hop > kExtraMax) {
    return fmt::format(
        "it would take {}, and the key allows at most {}; use larger microbatches or fewer stages",
        extra_per_hop, kExtraMax);
  }
  std::string text = fmt::format("set pipeline.extra_per_hop = {}", extra_per_hop);
  if (loaded.is_given("pipeline.update_every")) return text;
  const int64_t microbatch = microbatch_sequences(recipe);
  const int64_t update_every = automatic_update_every(recipe, extra_per_hop);
  return text + fmt::format(" and data.batch = {} ({} microbatches of {}, as now)",
                            update_every * microbatch, update_every, microbatch);
}

// Size of one activation or gradient message.
double message_bytes(const StageOptions& stage, int64_t tokens) {
  return static_cast<double>(tokens) * static_cast<double>(stage.shape.width) *
             static_cast<double>(c10::elementSize(stage.compute)) +
         static_cast<double>(sim::kHeaderBytes);
}

double transfer_seconds(const SimOptions& sim, double bytes) {
  return sim.bandwidth_mbit > 0 ? 8e-6 * bytes / sim.bandwidth_mbit : 0;
}

// An upper bound, in doubles: every microbatch goes all the way on the slowest worker, alone.
double simulated_seconds_max(const Recipe& recipe, int64_t vocabulary) {
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary);
  const int64_t tokens = microbatch_tokens(recipe);
  double slowest = 1;
  for (const double speed : recipe.sim.speeds) slowest = std::min(slowest, speed);
  const double hop = 1e-3 * (recipe.sim.latency_ms + recipe.sim.jitter_ms) +
                     transfer_seconds(recipe.sim, message_bytes(stages.front(), tokens));
  const ModelShape& shape = stages.front().shape;
  // Forward, backward, the forward once more, an update, and as much again for evaluations.
  const double flops = 20 * slice_cost(shape, whole_model(shape)) * static_cast<double>(tokens);
  const double microbatch =
      flops / (recipe.sim.flops * slowest) + 4 * hop * static_cast<double>(stages.size());
  return microbatch * static_cast<double>(recipe.run.updates * recipe.pipeline.update_every);
}

}  // namespace

Status check_simulated_time(const Recipe& recipe, int64_t vocabulary) {
  if (recipe.run.driver != DriverName::kSim) return {};
  constexpr double kYear = 365.25 * 86400;
  constexpr double kYearsMax = 250;  // 64 bits of nanoseconds are 292
  const double years = simulated_seconds_max(recipe, vocabulary) / kYear;
  if (years < kYearsMax) return {};
  return usage_error(
      fmt::format("this run could take {:.3g} years of simulated time, and the simulator's clock "
                  "counts {}: raise sim.flops ({}), sim.speeds or sim.bandwidth_mbit, or lower "
                  "sim.latency_ms or run.updates ({})",
                  years, kYearsMax, recipe.sim.flops, recipe.run.updates));
}

PipelineTimes simulated_times(const Recipe& recipe, int64_t vocabulary) {
  const StageOptions first = stage_options(recipe, vocabulary).front();
  const int64_t tokens = microbatch_tokens(recipe);
  PipelineTimes times;
  for (const sim::StageCosts& costs : sim_costs(recipe, vocabulary)) {
    times.stages.push_back(
        {.forward = costs.forward, .backward = costs.backward, .update = costs.update});
  }
  const double transfer = transfer_seconds(recipe.sim, message_bytes(first, tokens));
  times.hop = {.latency = {std::llround(1e6 * (recipe.sim.latency_ms + recipe.sim.jitter_ms))},
               .transfer = {std::llround(1e9 * transfer)}};
  return times;
}

std::string depth_report(const LoadedRecipe& loaded, int64_t vocabulary) {
  const Recipe& recipe = loaded.recipe;
  if (recipe.run.driver != DriverName::kSim || recipe.mesh.stages == 1) return "";
  const PipelineTimes times = simulated_times(recipe, vocabulary);
  const PipelineShape shape = pipeline_shape(recipe);
  const DepthPlan plan = plan_depth(times, shape.update_every);
  const double per_cent = 100 * busy_share(shape, times);
  const std::string busy = per_cent < 10 ? fmt::format("{:.2g} %", per_cent)
                                         : fmt::format("{:.0f} %", std::floor(per_cent));
  std::string text = fmt::format(
      "\nsimulated: the slowest stage takes {} per microbatch, a message {} each way; "
      "that stage is busy for {} of its time\n",
      shown(plan.slot), shown(times.hop.latency + times.hop.transfer), busy);
  if (plan.link_bound) {
    text += fmt::format(
        "warning: a message occupies its link for {}, longer than a stage takes for a microbatch, "
        "so more depth does not help: raise sim.bandwidth_mbit ({}), or lower mesh.stages ({}) for "
        "more work per message\n",
        shown(times.hop.transfer), recipe.sim.bandwidth_mbit, recipe.mesh.stages);
  } else if (!shape.synchronous() && shape.extra_per_hop < plan.extra_per_hop) {
    text +=
        fmt::format("warning: pipeline.extra_per_hop = {} is too low to keep the stages busy: {}\n",
                    shape.extra_per_hop, deeper(loaded, depth_needed(loaded, times)));
  }
  return text;
}

}  // namespace leeway
