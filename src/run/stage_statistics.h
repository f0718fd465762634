// Statistics of each stage in a session, over all replicas: how busy it was, how late its gradients
// came, how well its look-ahead guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "events/work.h"
#include "worker/outbox.h"
#include "worker/run_plan.h"

namespace leeway {

struct StageStatistics {
  double delay_expected = 0;         // W_s / K
  std::optional<double> delay_mean;  // none: the pipeline never filled
  int64_t delay_max = 0;
  double busy = 0;  // share of the time from its first work to its last update
  std::optional<double> prediction_error;  // none: no gradient is late
};

class StatisticsKeeper {
 public:
  explicit StatisticsKeeper(const RunPlan& plan);

  void worked(const WorkRecord& record);
  void predicted(const Prediction& prediction);
  StageStatistics of(StageId stage) const;

 private:
  struct Tally {
    Nanos busy;
    Nanos begin;
    Nanos end;
    Nanos busy_at_end;  // busy time up to the last update
    bool began = false;
    int64_t flushed = 0;  // microbatches before the last flush point
    int64_t delay_sum = 0;
    int64_t delay_count = 0;
    int64_t delay_max = 0;
    double error_sum = 0;
    int64_t error_count = 0;
  };

  Tally& tally_of(WorkerId worker);

  const RunPlan& plan_;
  std::vector<Tally> tallies_;  // replica after replica, stage after stage
};

}  // namespace leeway
