// Statistics of a session's rounds: how late means arrived, of how many replicas they were, and how
// far apart the replicas were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "worker/work_tally.h"

namespace leeway {

struct RoundStatistics {
  int64_t rounds = 0;          // in the run, over all sessions
  int64_t session_rounds = 0;  // in this one
  int64_t merges = 0;          // chunks merged by a worker that had contributed to them
  std::optional<double> lag_mean;
  double recent_lag = 0;  // averaged over the workers
  double lag_max = 0;
  int64_t longest_interval = 0;  // updates between two contributions of a worker
  // RMS distance of the replicas from their mean, relative to the RMS of the weights, over recently
  // exchanged subsets.
  std::optional<double> consensus;
  // Means of the main lane by number of contributors: the first is how many had one.
  std::vector<int64_t> contributors = {};

  int64_t means() const;
  std::string contributors_text() const;  // "12 3 480"
};

RoundStatistics round_statistics(const RunPlan& plan, const Tallies& tallies);

// If most means have turned out to have one contributor: that, and what to do about it.
std::optional<std::string> contributors_warning(const RoundStatistics& rounds,
                                                const AveragingOptions& averaging);

}  // namespace leeway
