// The learning rate over a run, as a share of the recipe's rate.
#pragma once

#include <cstdint>

#include "config/choices.h"

namespace leeway {

struct RateScheduleOptions {
  RateSchedule shape = RateSchedule::kCosine;
  int64_t updates = 1000;  // of the run
  int64_t warmup = 0;      // updates; the last of them has the full rate
  double final = 0.1;      // 0 to 1: the share that the last update has
};

// `update` counts from 0. Warm-up rises in equal steps, 1/warmup first. A run that is all warm-up
// ends there; past the end of the run the last share stays.
double rate_factor(const RateScheduleOptions& options, int64_t update);

}  // namespace leeway
