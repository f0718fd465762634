// summary.json: what came out of a run, in snake_case words with units last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "run/round_statistics.h"
#include "run/stage_statistics.h"
#include "worker/worker.h"

namespace leeway {

struct StageSummary {
  StageStatistics statistics;
  int64_t parameters = 0;
  int64_t versions_peak = 0;
  int64_t version_bytes = 0;
};

struct SummaryParts {
  const Recipe& recipe;
  const RunCounters& counters;
  int64_t parameters = 0;
  int64_t tokens = 0;
  std::optional<double> valid_loss;
  std::optional<int64_t> valid_update;  // that it is of
  bool finished = false;
  std::optional<double> valid_bits_per_byte;
  uint64_t weights_hash = 0;
  int64_t peak_rss_bytes = 0;
  std::vector<StageSummary> stages = {};
  RoundStatistics rounds = {};
  Rounds::Counts round_counts = {};  // of all workers
  double allreduce_bytes = 0;        // what fp32 gradients would have been
};

// The mean of the last few updates' losses: one update alone is noise.
std::optional<double> train_loss(const RunCounters& counters);

std::string summary_json(const SummaryParts& parts);

}  // namespace leeway
