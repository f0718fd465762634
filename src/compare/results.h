// The outcomes of a comparison's runs, and the table rows made from them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "compare/plan.h"

namespace leeway {

struct RunOutcome {
  std::optional<double> loss;  // validation loss; none: the run failed
  std::string why;             // the reason if it failed
  nlohmann::ordered_json summary = {};
  std::string data_hash = {};  // of the data it read
  std::optional<double> seconds_to_target = {};
};

// Paths of a run in the comparison's `folder`, and beside it its recipe, its output and, if it
// failed for good, the reason.
Path run_folder(const Path& folder, const PlannedRun& run);
Path run_recipe(const Path& folder, const PlannedRun& run);
Path run_log(const Path& folder, const PlannedRun& run);
Path run_failure(const Path& folder, const PlannedRun& run);

// None: not run yet, or not to the end. `target_loss` 0: do not look for when it was reached.
std::optional<RunOutcome> read_outcome(const Path& folder, const PlannedRun& run,
                                       double target_loss);

// One variant at one rate.
struct RateCell {
  double rate = 1;
  std::vector<double> losses;  // seed by seed, without failed runs
  double mean = 0;
  double half_range = 0;
  std::string why;  // not empty: a run failed, and the cell counts as failed
};

struct ComparisonRow {
  std::string name;
  std::vector<RateCell> cells;               // in the order of the rates
  std::optional<size_t> best;                // the cell with the lowest mean; none: all failed
  std::optional<double> difference_percent;  // in loss, relative to the baseline
  // Means over the seeds of the best cell.
  double bytes_averaging = 0;
  double bytes_between_replicas = 0;  // averaging, and copies for evaluations
  double bytes_pipeline = 0;
  double bytes_allreduce = 0;
  double busy = 0;
  double tokens_per_second = 0;
  std::optional<double> seconds_to_target;  // none: not all of its runs reached it
  size_t seeds_at_target = 0;               // those that reached it

  // The reason from the first failed cell.
  std::string why() const;
};

// `outcomes`: one per plan.runs, in the same order.
std::vector<ComparisonRow> comparison_rows(const ComparisonPlan& plan,
                                           const std::vector<RunOutcome>& outcomes);

// Everything that decides what a run reads: runs with equal names read the same data.
std::vector<std::string> data_named(const DataOptions& data);

// An error if runs that name the same data read different data: the text changed in between.
Status check_same_data(const ComparisonPlan& plan, const std::vector<RunOutcome>& outcomes);

}  // namespace leeway
