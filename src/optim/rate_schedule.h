// The learning rate over a run, as a fraction of the recipe's rate.
#pragma once

#include <cstdint>

#include "config/choices.h"

namespace leeway {

struct RateScheduleOptions {
  RateSchedule shape = RateSchedule::kCosine;
  int64_t updates = 1000;  // in the run
  int64_t warmup = 0;      // updates; the last one has the full rate
  double final = 0.1;      // 0 to 1: the last update's fraction
};

// `update` counts from 0. Warm-up rises in equal steps, starting at 1/warmup. A run that is all
// warm-up has no decay. Past the end of the run the last factor remains.
double rate_factor(const RateScheduleOptions& options, int64_t update);

}  // namespace leeway
