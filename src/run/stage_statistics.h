// Statistics of each stage in a session, over all replicas: how busy it was, how late its gradients
// came, how well its look-ahead guessed.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/work_tally.h"

namespace leeway {

struct StageStatistics {
  double delay_expected = 0;         // W_s / K
  std::optional<double> delay_mean;  // none: the pipeline never filled
  int64_t delay_max = 0;
  double busy = 0;  // share of the time from its first work to its last update
  std::optional<double> prediction_error;  // none: no gradient is late
};

StageStatistics stage_statistics(const RunPlan& plan, const Tallies& tallies, StageId stage);

}  // namespace leeway
