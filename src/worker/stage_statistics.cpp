#include "worker/stage_statistics.h"

#include <algorithm>

namespace leeway {

StatisticsKeeper::StatisticsKeeper(const RunPlan& plan)
    : plan_(plan), tallies_(static_cast<size_t>(plan.shape.stages)) {
  for (Tally& tally : tallies_) tally.flushed = plan.first_update * plan.shape.update_every;
}

void StatisticsKeeper::worked(const WorkRecord& record) {
  Tally& tally = tallies_[static_cast<size_t>(record.worker.stage.value)];
  const Work& work = record.work;
  if (!tally.began) tally.begin = record.times.begin;
  tally.began = true;
  tally.busy = tally.busy + (record.times.end - record.times.begin);
  if (work.kind == WorkKind::kUpdate) {
    tally.end = record.times.end;
    tally.busy_at_end = tally.busy;
  }
  if (work.kind != WorkKind::kForward) return;
  tally.delay_max = std::max(tally.delay_max, work.delay);
  // After a flush point the first gradients are early because the pipeline is filling: what is
  // told is how late they are once it is full.
  const Schedule schedule(plan_.shape, record.worker.stage);
  const int64_t every = plan_.shape.update_every;
  const bool flushed = schedule.warmup() > 0 && work.index == work.version * every;
  if (flushed) tally.flushed = work.index;
  const int64_t filling = std::max<int64_t>(schedule.delay_max(), 1) * every;
  if (!plan_.shape.synchronous() && work.index < tally.flushed + filling) return;
  tally.delay_sum += work.delay;
  ++tally.delay_count;
}

void StatisticsKeeper::predicted(const Prediction& prediction) {
  Tally& tally = tallies_[static_cast<size_t>(prediction.worker.stage.value)];
  tally.error_sum += prediction.error;
  ++tally.error_count;
}

StageStatistics StatisticsKeeper::of(StageId stage) const {
  const Tally& tally = tallies_[static_cast<size_t>(stage.value)];
  StageStatistics statistics;
  statistics.delay_expected = Schedule(plan_.shape, stage).delay_mean();
  statistics.delay_max = tally.delay_max;
  if (tally.delay_count > 0) {
    statistics.delay_mean =
        static_cast<double>(tally.delay_sum) / static_cast<double>(tally.delay_count);
  }
  const double span = (tally.end - tally.begin).seconds();
  if (span > 0) statistics.busy = tally.busy_at_end.seconds() / span;
  if (tally.error_count > 0) {
    statistics.prediction_error = tally.error_sum / static_cast<double>(tally.error_count);
  }
  return statistics;
}

}  // namespace leeway
