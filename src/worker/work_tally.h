// What one worker has done in a session, in numbers. Totals and not differences, so that a report
// that is lost, late or comes twice falsifies nothing: the newest one has it all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compute/stage_reports.h"
#include "events/traffic.h"
#include "events/work.h"
#include "pipeline/schedule.h"
#include "worker/run_plan.h"

namespace leeway {

struct WorkTally {
  PurposeBytes bytes = {};
  // From the first piece of work to the end of the last update, and busy in between.
  Nanos begin = {};
  Nanos end = {};
  Nanos busy = {};
  Nanos evaluating = {};
  // Of gradients, while the pipeline was full.
  int64_t delay_sum = 0;
  int64_t delay_count = 0;
  int64_t delay_max = 0;  // whether it was full or not
  double prediction_error_sum = 0;
  int64_t predictions = 0;
  // Of rounds on the main lane:
  int64_t first_round = -1;      // -1: none yet
  int64_t next_round = 0;        // after the last one that this worker took part in
  int64_t longest_interval = 0;  // updates between two contributions
  int64_t merges = 0;            // of chunks that this worker had contributed to
  double lag_sum = 0;            // updates, in fractions
  double lag_max = 0;
  double recent_lag = 0;
  // Sums of squares over recent means of weights, of any lane: how far the replicas were from the
  // mean, and the mean itself.
  double spread = 0;
  double scale = 0;
  // Means that this worker computed, by number of contributors: the first is how many had one.
  std::vector<int64_t> contributors = {};
};

// All fields but `contributors`, for writing and reading.
template <class Tally, class Use>
void each_number(Tally& tally, const Use& use) {
  use(tally.bytes);
  for (auto* time : {&tally.begin, &tally.end, &tally.busy, &tally.evaluating}) use(*time);
  for (auto* count :
       {&tally.delay_sum, &tally.delay_count, &tally.delay_max, &tally.predictions,
        &tally.first_round, &tally.next_round, &tally.longest_interval, &tally.merges}) {
    use(*count);
  }
  for (auto* sum : {&tally.prediction_error_sum, &tally.lag_sum, &tally.lag_max, &tally.recent_lag,
                    &tally.spread, &tally.scale}) {
    use(*sum);
  }
}

using Tallies = std::map<WorkerId, WorkTally>;

class TallyKeeper {
 public:
  TallyKeeper(WorkerId id, const RunPlan& plan);

  void worked(const WorkRecord& record);
  void predicted(const Prediction& prediction);
  void restart() { contributed_at_.reset(); }  // what it was away from is no interval of rounds
  const WorkTally& tally() const { return tally_; }

 private:
  void count_delay(const Work& work);
  void count_round(const WorkRecord& record);

  Schedule schedule_;
  bool synchronous_;
  std::optional<Lane> weights_lane_;  // the lane whose rounds carry weights
  WorkTally tally_;
  bool began_ = false;
  Nanos busy_;                             // after the last update, too
  int64_t flushed_;                        // microbatches before the last flush point
  std::optional<int64_t> contributed_at_;  // update
};

}  // namespace leeway
