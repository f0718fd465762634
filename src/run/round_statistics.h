// What the rounds of a session came to: how late means arrived, and how far apart replicas were.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "events/work.h"
#include "worker/run_plan.h"

namespace leeway {

struct RoundStatistics {
  int64_t rounds = 0;  // of the run, over all sessions
  int64_t merges = 0;  // chunks merged by who had sent its part
  std::optional<double> lag_mean;
  int64_t lag_max = 0;
  // Distance of the replicas from their mean over the size of the weights, root mean squares, over
  // the subsets that went by of late.
  std::optional<double> consensus;
};

class RoundKeeper {
 public:
  explicit RoundKeeper(const RunPlan& plan);

  void worked(const WorkRecord& record);
  RoundStatistics statistics() const;
  double recent_lag() const { return recent_lag_; }
  // Updates between two contributions of a worker, at most.
  int64_t longest_interval() const { return longest_interval_; }

 private:
  std::optional<Lane> weights_lane_;  // whose rounds carry weights
  RoundStatistics statistics_;
  int64_t lag_sum_ = 0;
  double recent_lag_ = 0;
  double spread_ = 0;
  double scale_ = 0;
  std::map<WorkerId, int64_t> contributed_at_;
  int64_t longest_interval_ = 0;
};

}  // namespace leeway
