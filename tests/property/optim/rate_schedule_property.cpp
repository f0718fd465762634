#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/rate_schedule.h"

namespace leeway {
namespace {

RateScheduleOptions any_schedule() {
  RateScheduleOptions options;
  options.shape = *rc::gen::element(RateSchedule::kCosine, RateSchedule::kLinear,
                                    RateSchedule::kConstant, RateSchedule::kWsd);
  options.updates = *rc::gen::inRange<int64_t>(1, 400);
  options.warmup = *rc::gen::inRange<int64_t>(0, options.updates + 1);
  options.final = *rc::gen::inRange<int>(0, 101) / 100.0;
  return options;
}

RC_GTEST_PROP(Schedule, StaysBetweenFinalAndOneAfterWarmUp, ()) {
  const RateScheduleOptions options = any_schedule();
  for (int64_t update = options.warmup; update < options.updates; ++update) {
    const double factor = rate_factor(options, update);
    RC_ASSERT(factor <= 1.0 + 1e-12);
    RC_ASSERT(factor >= options.final - 1e-12);
  }
}

RC_GTEST_PROP(Schedule, NeverRisesAfterWarmUpAndNeverFallsBefore, ()) {
  const RateScheduleOptions options = any_schedule();
  for (int64_t update = 1; update < options.updates + 5; ++update) {
    const double before = rate_factor(options, update - 1);
    const double factor = rate_factor(options, update);
    if (update < options.warmup) {
      RC_ASSERT(factor > before);
    } else {
      RC_ASSERT(factor <= before + 1e-12);
    }
  }
}

RC_GTEST_PROP(Schedule, IsAlwaysAboveZeroInWarmUp, ()) {
  const RateScheduleOptions options = any_schedule();
  for (int64_t update = 0; update < options.warmup; ++update) {
    RC_ASSERT(rate_factor(options, update) > 0.0);
  }
}

RC_GTEST_PROP(Schedule, EndsAtFinal, ()) {
  RateScheduleOptions options = any_schedule();
  RC_PRE(options.shape != RateSchedule::kConstant);
  RC_PRE(options.updates > std::max<int64_t>(options.warmup, 1));
  RC_ASSERT(std::abs(rate_factor(options, options.updates - 1) - options.final) < 1e-12);
}

RC_GTEST_PROP(Schedule, HasNoJumps, ()) {
  // The steepest part of each shape bounds what one update can change.
  const RateScheduleOptions options = any_schedule();
  const int64_t peak = std::max<int64_t>(options.warmup - 1, 0);
  const double length = static_cast<double>(std::max<int64_t>(options.updates - 1 - peak, 1));
  double slope = (1 - options.final) / length;
  if (options.shape == RateSchedule::kCosine) slope *= std::numbers::pi / 2;
  if (options.shape == RateSchedule::kWsd) slope *= 5;
  for (int64_t update = options.warmup + 1; update < options.updates; ++update) {
    const double change = rate_factor(options, update - 1) - rate_factor(options, update);
    RC_ASSERT(change <= slope + 1e-12);
  }
}

RC_GTEST_PROP(Schedule, ReachesTheFullRateAtTheEndOfWarmUp, ()) {
  const RateScheduleOptions options = any_schedule();
  const int64_t peak = std::max<int64_t>(options.warmup - 1, 0);
  RC_ASSERT(rate_factor(options, peak) == 1.0);
}

}  // namespace
}  // namespace leeway
