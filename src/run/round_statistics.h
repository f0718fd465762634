// Statistics of a session's rounds: how late means arrived, of how many replicas they were, and how
// far apart the replicas were.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "events/work.h"
#include "worker/run_plan.h"

namespace leeway {

struct RoundStatistics {
  int64_t rounds = 0;  // in the run, over all sessions
  int64_t merges = 0;  // chunks merged by a worker that had contributed to them
  std::optional<double> lag_mean;
  int64_t lag_max = 0;
  // RMS distance of the replicas from their mean, relative to the RMS of the weights, over recently
  // exchanged subsets.
  std::optional<double> consensus;
  // Means of the main lane by number of contributors: the first is how many had one.
  std::vector<int64_t> contributors = {};

  int64_t means() const;
  std::string contributors_text() const;  // "12 3 480"
};

class RoundKeeper {
 public:
  explicit RoundKeeper(const RunPlan& plan);

  void worked(const WorkRecord& record);
  RoundStatistics statistics() const;
  double recent_lag() const { return recent_lag_; }
  // The most updates between two contributions of a worker.
  int64_t longest_interval() const { return longest_interval_; }
  // Once, when most means have turned out to have one contributor.
  std::optional<std::string> take_warning(const AveragingOptions& averaging);

 private:
  std::optional<Lane> weights_lane_;  // the lane whose rounds carry weights
  RoundStatistics statistics_;
  int64_t lag_sum_ = 0;
  double recent_lag_ = 0;
  double spread_ = 0;
  double scale_ = 0;
  std::map<WorkerId, int64_t> contributed_at_;
  int64_t longest_interval_ = 0;
  std::optional<int64_t> first_round_;  // of this session
  bool warned_ = false;
};

}  // namespace leeway
