// What came out of a comparison's runs, and the rows that they make.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "compare/plan.h"

namespace leeway {

struct RunOutcome {
  std::optional<double> loss;  // on the validation data; none: it failed
  std::string why;             // it failed
  nlohmann::ordered_json summary = {};
  std::string data_hash = {};  // of what it read
  std::optional<double> seconds_to_target = {};
};

// Where a run of the set in `folder` lies, and beside it its recipe, its words and, where it
// failed for good, why.
Path run_folder(const Path& folder, const PlannedRun& run);
Path run_recipe(const Path& folder, const PlannedRun& run);
Path run_log(const Path& folder, const PlannedRun& run);
Path run_failure(const Path& folder, const PlannedRun& run);

// None: it has not been run, or not to its end. `target_loss` 0: nobody asks when it was reached.
std::optional<RunOutcome> read_outcome(const Path& folder, const PlannedRun& run,
                                       double target_loss);

// One variant at one rate.
struct RateCell {
  double rate = 1;
  std::vector<double> losses;  // seed by seed, of those that did not fail
  double mean = 0;
  double half_range = 0;
  std::string why;  // not empty: a run failed, and the cell counts as failed
};

struct ComparisonRow {
  std::string name;
  std::vector<RateCell> cells;               // in the order of the rates
  std::optional<size_t> best;                // the cell with the lowest mean; none: all have failed
  std::optional<double> difference_percent;  // of the loss, against the baseline's
  // Means over the seeds of the best cell.
  double bytes_averaging = 0;
  double bytes_pipeline = 0;
  double bytes_allreduce = 0;
  double busy = 0;
  double tokens_per_second = 0;
  std::optional<double> seconds_to_target;  // none: not all of its runs got there
  size_t seeds_at_target = 0;               // those that did

  // Of the first cell that failed.
  std::string why() const;
};

// `outcomes` are those of plan.runs, in their order.
std::vector<ComparisonRow> comparison_rows(const ComparisonPlan& plan,
                                           const std::vector<RunOutcome>& outcomes);

// All that decides what a run reads: runs in which it is equal read the same.
std::vector<std::string> data_named(const DataOptions& data);

// Runs that name the same data and have read other: text was changed while the set ran.
Status check_same_data(const ComparisonPlan& plan, const std::vector<RunOutcome>& outcomes);

}  // namespace leeway
