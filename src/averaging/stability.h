// Whether merging late keeps replicas together. nu = lag * fraction / interval rounds of one
// coordinate are in flight at once; above a limit each merge undoes more than the last one did, and
// replicas drift apart without any gradient.
#pragma once

#include <optional>
#include <string>

#include "averaging/merge.h"

namespace leeway {

struct StabilityOptions {
  double lag = 0;
  double fraction = 1;
  int64_t interval = 1;
  Correction correction = Correction::kEma;
  double ema_start = 0.5;
};

double rounds_in_flight(const StabilityOptions& options);  // nu
// The nu above which to warn: 1 for delta, 2.5 for ema with m = .5; none: never warn.
std::optional<double> stability_limit(const StabilityOptions& options);
// The smallest interval that is below the limit.
int64_t stable_interval(const StabilityOptions& options);
// One sentence with the figures and what to change; none: stable.
std::optional<std::string> stability_warning(const StabilityOptions& options);

}  // namespace leeway
