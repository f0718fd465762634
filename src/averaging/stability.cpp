#include "averaging/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace leeway {
namespace {

// Simulations without gradients still converge here, with a margin: they diverge near 1.5 and 3.1.
constexpr double kDeltaLimit = 1;
constexpr double kEmaLimit = 2.5;
constexpr double kEmaLimitConstant = 0.5;  // the m it was found with

std::string_view name_of(Correction correction) {
  return correction == Correction::kDelta ? "delta" : "ema";
}

}  // namespace

double rounds_in_flight(const StabilityOptions& options) {
  return options.lag * options.fraction / static_cast<double>(options.interval);
}

std::optional<double> stability_limit(const StabilityOptions& options) {
  if (options.correction == Correction::kNone) return std::nullopt;
  if (options.correction == Correction::kDelta) return kDeltaLimit;
  // With m = 0 the rule is delta's; more smoothing than was tried may not allow more.
  const double share = std::clamp(options.ema_start / kEmaLimitConstant, 0.0, 1.0);
  return kDeltaLimit + (kEmaLimit - kDeltaLimit) * share;
}

int64_t stable_interval(const StabilityOptions& options) {
  const std::optional<double> limit = stability_limit(options);
  if (!limit) return 1;
  StabilityOptions tried = options;
  tried.interval =
      std::max<int64_t>(1, static_cast<int64_t>(options.lag * options.fraction / *limit));
  while (rounds_in_flight(tried) > *limit) ++tried.interval;
  return tried.interval;
}

std::optional<std::string> stability_warning(const StabilityOptions& options) {
  const std::optional<double> limit = stability_limit(options);
  const double rounds = rounds_in_flight(options);
  if (!limit || rounds <= *limit) return std::nullopt;
  return fmt::format(
      "a lag of {:g} updates, averaging.fraction = {:g} and averaging.interval = {} keep {:.3g} "
      "rounds of each coordinate in flight, and above {:.3g} averaging.correction = \"{}\" may "
      "drive replicas apart: choose averaging.interval = {} or longer, a smaller "
      "averaging.fraction, or a shorter lag",
      options.lag, options.fraction, options.interval, rounds, *limit, name_of(options.correction),
      stable_interval(options));
}

}  // namespace leeway
