#include "run/stage_statistics.h"

#include <algorithm>

namespace leeway {

StatisticsKeeper::StatisticsKeeper(const RunPlan& plan)
    : plan_(plan), tallies_(static_cast<size_t>(plan.shape.stages * plan.replicas)) {
  for (size_t i = 0; i < tallies_.size(); ++i) {
    const ReplicaId replica = {static_cast<int64_t>(i) / plan.shape.stages};
    tallies_[i].flushed = plan.first_update_of(replica) * plan.shape.update_every;
  }
}

StatisticsKeeper::Tally& StatisticsKeeper::tally_of(WorkerId worker) {
  return tallies_[static_cast<size_t>(worker.replica.value * plan_.shape.stages +
                                      worker.stage.value)];
}

void StatisticsKeeper::worked(const WorkRecord& record) {
  Tally& tally = tally_of(record.worker);
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
  // Right after a flush point gradients are less late because the pipeline is filling. Count
  // delays only once it is full.
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
  Tally& tally = tally_of(prediction.worker);
  tally.error_sum += prediction.error;
  ++tally.error_count;
}

StageStatistics StatisticsKeeper::of(StageId stage) const {
  StageStatistics statistics;
  statistics.delay_expected = Schedule(plan_.shape, stage).delay_mean();
  int64_t delay_sum = 0, delay_count = 0, error_count = 0;
  double error_sum = 0;
  for (int64_t replica = 0; replica < plan_.replicas; ++replica) {
    const Tally& tally = tallies_[static_cast<size_t>(replica * plan_.shape.stages + stage.value)];
    statistics.delay_max = std::max(statistics.delay_max, tally.delay_max);
    delay_sum += tally.delay_sum;
    delay_count += tally.delay_count;
    error_sum += tally.error_sum;
    error_count += tally.error_count;
    const double span = (tally.end - tally.begin).seconds();
    const auto replicas = static_cast<double>(plan_.replicas);
    if (span > 0) statistics.busy += tally.busy_at_end.seconds() / span / replicas;
  }
  if (delay_count > 0) {
    statistics.delay_mean = static_cast<double>(delay_sum) / static_cast<double>(delay_count);
  }
  if (error_count > 0) {
    statistics.prediction_error = error_sum / static_cast<double>(error_count);
  }
  return statistics;
}

}  // namespace leeway
