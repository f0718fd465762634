#include "config/differences.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "config/keys.h"

namespace leeway {
namespace {

// These never matter, nor does any key of [sim] and [network].
constexpr std::array<std::string_view, 16> kNoMatter = {"run.driver",
                                                        "run.device",
                                                        "mesh.devices",
                                                        "run.threads_per_worker",
                                                        "run.keep",
                                                        "run.join_mbit",
                                                        "run.faults",
                                                        "run.evaluate_every",
                                                        "run.evaluate_mean_every",
                                                        "run.evaluate_windows",
                                                        "pipeline.recompute",
                                                        "pipeline.stash_on",
                                                        "pipeline.graphs",
                                                        "averaging.deadline_ms",
                                                        "averaging.guard",
                                                        "run.log"};
// These only affect how late gradients are.
constexpr std::array<std::string_view, 3> kOnlyDelays = {"mesh.stages", "pipeline.schedule",
                                                         "pipeline.extra_per_hop"};
// Includes the length of the run, because the rate schedule depends on it.
constexpr std::array<std::string_view, 10> kMayChange = {
    "run.updates",           "run.tokens",      "optimizer.rate", "mesh.replicas",
    "optimizer.matrix_rate", "optimizer.decay", "optimizer.clip", "optimizer.warmup",
    "optimizer.schedule",    "optimizer.final"};

bool contains(std::span<const std::string_view> paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

bool describes_links(const Key& key) {
  return key.path.starts_with("sim.") || key.path.starts_with("network.");
}

bool is_synchronous(const Recipe& recipe) {
  return recipe.pipeline.schedule != PipelineSchedule::kAsync;
}

// Whether a flush changes nothing: no late gradients and no unfinished rounds.
bool nothing_in_flight(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  const bool at_once = averaging.merge == MergePolicy::kFixedLag && averaging.lag == 0;
  const bool no_rounds =
      recipe.mesh.replicas == 1 || averaging.method == AveragingMethod::kNone || at_once;
  return no_rounds && (is_synchronous(recipe) || recipe.mesh.stages == 1);
}

std::string_view reason_of(std::string_view path) {
  if (path == "mesh.stages")
    return "in an asynchronous pipeline the number of stages decides how late gradients are";
  if (path.starts_with("averaging.")) return "it decides how replicas merge their weights";
  if (path == "pipeline.schedule" || path == "pipeline.extra_per_hop")
    return "it decides how late gradients are";
  if (path == "pipeline.update_every") return "it decides which microbatches make up an update";
  if (path == "pipeline.wire") return "it decides what stages send each other";
  if (path.starts_with("pipeline.")) return "it decides what is done about late gradients";
  return "";
}

}  // namespace

std::vector<Difference> differences(const Recipe& a, const Recipe& b) {
  const bool no_delays = is_synchronous(a) && is_synchronous(b);
  const bool no_hops = a.mesh.stages == 1 && b.mesh.stages == 1;
  const bool no_averaging = a.mesh.replicas == 1 && b.mesh.replicas == 1;
  std::vector<Difference> found;
  for (const Key& key : keys()) {
    const Value first = value_of(key, a);
    const Value second = value_of(key, b);
    if (first == second || contains(kNoMatter, key.path) || describes_links(key)) continue;
    if (no_delays && contains(kOnlyDelays, key.path)) continue;
    if (no_averaging && key.table() == "averaging") continue;
    if (no_hops && key.path == "pipeline.wire") continue;
    // A checkpoint drains the pipeline, which matters only if something is in flight.
    const bool moves_flushes = key.path == "run.checkpoint_every";
    if (moves_flushes && nothing_in_flight(a) && nothing_in_flight(b)) continue;
    // A single replica has no rounds behind it, or none ahead.
    const bool one_alone = a.mesh.replicas == 1 || b.mesh.replicas == 1;
    const bool may_change = moves_flushes || contains(kMayChange, key.path) ||
                            (one_alone && key.table() == "averaging");
    found.push_back({std::string(key.path), toml_text(first), toml_text(second), may_change,
                     may_change ? "" : reason_of(key.path)});
  }
  return found;
}

}  // namespace leeway
