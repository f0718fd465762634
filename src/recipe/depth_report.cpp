#include "recipe/depth_report.h"

#include <fmt/format.h>

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
double message_bytes(const Recipe& recipe, const StageOptions& stage) {
  return static_cast<double>(stage_wire(recipe, stage).bytes() + sim::kHeaderBytes);
}

double transfer_seconds(const SimOptions& sim, double bytes) {
  return sim.bandwidth_mbit > 0 ? 8e-6 * bytes / sim.bandwidth_mbit : 0;
}

}  // namespace

PipelineTimes simulated_times(const Recipe& recipe, int64_t vocabulary) {
  const StageOptions first = stage_options(recipe, vocabulary, StagesFor::kPlan).front();
  PipelineTimes times;
  // Of the slowest replica, if they have speeds of their own.
  const auto stages = static_cast<size_t>(recipe.mesh.stages);
  const std::vector<sim::StageCosts> workers = sim_costs(recipe, vocabulary);
  for (size_t s = 0; s < stages; ++s) {
    sim::StageCosts costs = workers[s];
    for (size_t w = s; w < workers.size(); w += stages) {
      if (workers[w].forward > costs.forward) costs = workers[w];
    }
    times.stages.push_back(
        {.forward = costs.forward, .backward = costs.backward, .update = costs.update});
  }
  const double transfer = transfer_seconds(recipe.sim, message_bytes(recipe, first));
  times.hop = {.latency = {std::llround(1e6 * (recipe.sim.latency_ms + recipe.sim.jitter_ms))},
               .transfer = Nanos::rounded(1e9 * transfer)};
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
