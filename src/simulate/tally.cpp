#include "simulate/tally.h"

#include <algorithm>
#include <utility>

namespace leeway {

double mean_value(const ValueCounts& histogram) {
  double sum = 0, count = 0;
  for (const auto& [value, times] : histogram) {
    sum += value * static_cast<double>(times);
    count += static_cast<double>(times);
  }
  return count == 0 ? 0 : sum / count;
}

double largest_of(const ValueCounts& histogram) {
  return histogram.empty() ? 0 : histogram.rbegin()->first;
}

Tally::Tally(const RunPlan& plan, const std::vector<sim::StageCosts>& costs, Progress progress)
    : plan_(plan),
      progress_(std::move(progress)),
      costs_(costs),
      averaging_(costs.size()),
      delays_(static_cast<size_t>(plan.shape.stages)),
      update_times_(static_cast<size_t>(plan.replicas)) {
  for (int64_t s = 0; s < plan.shape.stages; ++s) {
    const Schedule schedule(plan.shape, {s});
    filled_at_.push_back(schedule.delay_max() * plan.shape.update_every);
  }
}

void Tally::worked(const WorkRecord& record) {
  bytes_.add(record);
  const Work& work = record.work;
  if (purpose_of(work) == Purpose::kAveraging) {
    const Mesh mesh = {.stages = plan_.shape.stages, .replicas = plan_.replicas};
    const size_t worker = mesh.index(record.worker);
    averaging_[worker].bytes_sent += record.bytes_sent;
    // Without the pauses of its machine, which the record's times include.
    averaging_[worker].computing = averaging_[worker].computing + costs_[worker].of(work);
  }
  const auto stage = static_cast<size_t>(record.worker.stage.value);
  if (work.kind == WorkKind::kForward && work.index >= filled_at_[stage]) {
    ++delays_[stage][static_cast<double>(work.delay)];
  }
  if (work.kind == WorkKind::kMerge && work.lane == Lane::kMain && !work.replicas.empty()) {
    ++lags_[lag_of(work)];
  }
  if (work.kind == WorkKind::kContribute && work.lane == Lane::kMain) {
    rounds_ = std::max(rounds_, work.index + 1);
  }
  if (work.kind != WorkKind::kUpdate || stage != 0) return;
  update_times_[static_cast<size_t>(record.worker.replica.value)].push_back(record.times.end);
  ++updates_;
  if (abandoned_ || !progress_ || progress_(updates_ / plan_.replicas)) return;
  abandoned_ = true;
  ask_(Ask::kAbandon);
}

}  // namespace leeway
