// summary.json: the results of a run, with snake_case keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "run/round_statistics.h"
#include "run/stage_statistics.h"
#include "run/training_observer.h"
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
  std::optional<int64_t> valid_update;      // the update that valid_loss belongs to
  ReplicaSet valid_replicas = {};           // and whose mean it was measured on
  std::optional<Evaluated> valid_own = {};  // the newest evaluation of one replica's own weights
  bool finished = false;
  std::optional<double> valid_bits_per_byte;
  uint64_t weights_hash = 0;
  int64_t peak_rss_bytes = 0;
  std::vector<StageSummary> stages = {};
  RoundStatistics rounds = {};
  RoundCounts round_counts = {};              // summed over all workers
  std::optional<std::string> agreement = {};  // finished_workers.h
  double allreduce_bytes = 0;  // an all-reduce of fp32 gradients would have sent this
};

// The mean loss of the last few updates: a single one is noisy.
std::optional<double> train_loss(const RunCounters& counters);

// All that replicas have sent each other: for averaging, and copies of weights for evaluations.
int64_t bytes_between_replicas(const RunCounters& counters);

std::string summary_json(const SummaryParts& parts);

// A session that ended normally left a summary: it has the time spent and the bytes sent after the
// checkpoint, and evaluations that need not be repeated.
void take_over_summary(const Path& summary, RunCounters& counters, NewestEvaluations& valid);

}  // namespace leeway
