#include "config/averaging_checks.h"

#include <fmt/format.h>

#include <cmath>

#include "config/averaging_rules.h"
#include "config/keys.h"
#include "config/named.h"

namespace leeway {
namespace {

Status check_used(const LoadedRecipe& loaded) {
  for (const Key& key : keys()) {
    if (!loaded.is_given(key.path)) continue;
    const auto idle = idle_averaging(key.path, loaded.recipe.averaging);
    if (!idle) continue;
    // Tells users who try another method with --set how to do it without editing the recipe.
    const bool in_file = loaded.origin_of(key.path).kind == Origin::Kind::kFile;
    const std::string without = in_file ? fmt::format(" (--set {}=auto)", key.path) : "";
    return usage_error(fmt::format("{} does not go with {}, {}: leave {} out{}, or choose {}",
                                   named(loaded, key.path), named(loaded, idle->decided_by),
                                   idle->reason, key.path, without, idle->instead));
  }
  return {};
}

Status check_wire(const LoadedRecipe& loaded) {
  const AveragingOptions& averaging = loaded.recipe.averaging;
  const bool lowbit = averaging.method == AveragingMethod::kLowbit;
  if (has_few_bits(averaging.wire) && !lowbit)
    return usage_error(
        fmt::format("{} does not go with {}: only lowbit makes up for what so few bits lose; "
                    "choose another wire, or averaging.method = \"lowbit\"",
                    named(loaded, "averaging.wire"), named(loaded, "averaging.method")));
  return {};
}

// A run with several replicas that never merges is surely a mistake.
Status check_length(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const AveragingOptions& averaging = recipe.averaging;
  if (recipe.mesh.replicas == 1) return {};
  if (averaging.interval > recipe.run.updates)
    return usage_error(
        fmt::format("{} is more than {}, so no round would begin: shorten the "
                    "interval",
                    named(loaded, "averaging.interval"), named_length(loaded)));
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  if (fixed && averaging.lag >= static_cast<double>(recipe.run.updates))
    return usage_error(
        fmt::format("{} is not less than {}, so no round would be merged: shorten "
                    "the lag",
                    named(loaded, "averaging.lag"), named_length(loaded)));
  return {};
}

// What could be meant by a lag that is not a whole number of microbatches.
std::string lags_near(double lag, int64_t update_every) {
  const auto every = static_cast<double>(update_every);
  const double below = std::floor(lag * every);
  // With four decimals, which is nearer than the check asks for.
  const auto shown = [&](double backwards) {
    return fmt::format("{:.10g}", std::round(1e4 * backwards / every) / 1e4);
  };
  return below == 0 ? shown(1) : fmt::format("{} or {}", shown(below), shown(below + 1));
}

Status check_lag(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const bool fixed = recipe.averaging.merge == MergePolicy::kFixedLag;
  if (!fixed || recipe.mesh.replicas == 1 || lag_backwards(recipe)) return {};
  return usage_error(fmt::format(
      "{} is not a whole number of the microbatches of an update: choose {}, or another "
      "pipeline.update_every ({})",
      named(loaded, "averaging.lag"), lags_near(recipe.averaging.lag, recipe.pipeline.update_every),
      recipe.pipeline.update_every));
}

Status check_overlap(const LoadedRecipe& loaded) {
  const AveragingOptions& averaging = loaded.recipe.averaging;
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  if (averaging.method == AveragingMethod::kDiloco && fixed &&
      static_cast<double>(averaging.interval) <= averaging.lag)
    return usage_error(
        fmt::format("{} is not more than {}, so rounds of diloco would overlap: lengthen the "
                    "interval, or shorten the lag",
                    named(loaded, "averaging.interval"), named(loaded, "averaging.lag")));
  return {};
}

}  // namespace

Status check_averaging(const LoadedRecipe& loaded) {
  // A recipe for several replicas must also run with --set mesh.replicas=1 or
  // averaging.method=none.
  if (loaded.recipe.averaging.method == AveragingMethod::kNone) return {};
  LEEWAY_TRY(check_used(loaded));
  LEEWAY_TRY(check_wire(loaded));
  LEEWAY_TRY(check_lag(loaded));
  LEEWAY_TRY(check_overlap(loaded));
  LEEWAY_TRY(check_length(loaded));
  return {};
}

}  // namespace leeway
