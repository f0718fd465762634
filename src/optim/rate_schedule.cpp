#include "optim/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace leeway {
namespace {

// The share of the updates after warm-up that "warmup, stable, decay" spends on its decay.
constexpr double kWsdDecayShare = 0.2;

}  // namespace

double rate_factor(const RateScheduleOptions& options, int64_t update) {
  LEEWAY_CHECK(update >= 0, "updates count from 0");
  if (update < options.warmup) {
    return static_cast<double>(update + 1) / static_cast<double>(options.warmup);
  }
  // Progress is 0 at the first update with the full rate and 1 at the last update.
  const int64_t peak = std::max<int64_t>(options.warmup - 1, 0);
  const int64_t last = std::max(options.updates - 1, peak);
  const double progress = last == peak ? 0.0
                                       : static_cast<double>(std::min(update, last) - peak) /
                                             static_cast<double>(last - peak);
  const double drop = 1 - options.final;
  switch (options.shape) {
    case RateSchedule::kConstant:
      return 1;
    case RateSchedule::kLinear:
      return 1 - drop * progress;
    case RateSchedule::kCosine:
      return options.final + drop * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case RateSchedule::kWsd:
      return 1 - drop * std::max(0.0, 1 - (1 - progress) / kWsdDecayShare);
  }
  LEEWAY_UNREACHABLE("a schedule without a shape");
}

}  // namespace leeway
