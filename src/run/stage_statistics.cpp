#include "run/stage_statistics.h"

#include <algorithm>

namespace leeway {

StageStatistics stage_statistics(const RunPlan& plan, const Tallies& tallies, StageId stage) {
  StageStatistics statistics;
  statistics.delay_expected = Schedule(plan.shape, stage).delay_mean();
  int64_t delay_sum = 0, delay_count = 0, predictions = 0;
  double error_sum = 0;
  for (const auto& [worker, tally] : tallies) {
    if (worker.stage != stage) continue;
    statistics.delay_max = std::max(statistics.delay_max, tally.delay_max);
    delay_sum += tally.delay_sum;
    delay_count += tally.delay_count;
    error_sum += tally.prediction_error_sum;
    predictions += tally.predictions;
    const double span = (tally.end - tally.begin).seconds();
    const auto replicas = static_cast<double>(plan.replicas);
    if (span > 0) statistics.busy += tally.busy.seconds() / span / replicas;
  }
  if (delay_count > 0) {
    statistics.delay_mean = static_cast<double>(delay_sum) / static_cast<double>(delay_count);
  }
  if (predictions > 0) {
    statistics.prediction_error = error_sum / static_cast<double>(predictions);
  }
  return statistics;
}

}  // namespace leeway
