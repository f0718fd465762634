#include "worker/work_tally.h"

#include <algorithm>

namespace leeway {
namespace {

constexpr double kFading = 0.98;  // decay of recent values, per merge or mean

}  // namespace

TallyKeeper::TallyKeeper(WorkerId id, const RunPlan& plan)
    : schedule_(plan.shape, id.stage),
      synchronous_(plan.shape.synchronous()),
      flushed_(plan.first_update_of(id.replica) * plan.shape.update_every) {
  for (const LanePlan& lane : plan.lanes) {
    if (!lane.gradients && !lane.common) weights_lane_ = lane.lane;
  }
}

void TallyKeeper::worked(const WorkRecord& record) {
  const Work& work = record.work;
  const Nanos time = record.times.end - record.times.begin;
  tally_.bytes.add(record);
  if (!began_) tally_.begin = record.times.begin;
  began_ = true;
  busy_ = busy_ + time;
  if (is_evaluation(work)) tally_.evaluating = tally_.evaluating + time;
  if (work.kind == WorkKind::kUpdate) {
    tally_.end = record.times.end;
    tally_.busy = busy_;
  }
  if (work.kind == WorkKind::kForward) count_delay(work);
  if (is_of_round(work.kind)) count_round(record);
}

// Right after a flush point gradients are less late because the pipeline is filling. Delays count
// only once it is full.
void TallyKeeper::count_delay(const Work& work) {
  tally_.delay_max = std::max(tally_.delay_max, work.delay);
  const int64_t every = schedule_.update_every();
  const bool flushed = schedule_.warmup() > 0 && work.index == work.version * every;
  if (flushed) flushed_ = work.index;
  const int64_t filling = std::max<int64_t>(schedule_.delay_max(), 1) * every;
  if (!synchronous_ && work.index < flushed_ + filling) return;
  tally_.delay_sum += work.delay;
  ++tally_.delay_count;
}

void TallyKeeper::count_round(const WorkRecord& record) {
  const Work& work = record.work;
  if (work.kind == WorkKind::kReduce && work.lane == weights_lane_ && record.norms) {
    tally_.spread = kFading * tally_.spread + record.norms->spread;
    tally_.scale = kFading * tally_.scale + record.norms->scale;
  }
  if (work.lane != Lane::kMain) return;
  if (work.kind == WorkKind::kContribute) {
    if (tally_.first_round < 0) tally_.first_round = work.index;
    tally_.next_round = std::max(tally_.next_round, work.index + 1);
    const int64_t since = work.update - contributed_at_.value_or(work.update);
    tally_.longest_interval = std::max(tally_.longest_interval, since);
    contributed_at_ = work.update;
  }
  if (work.kind == WorkKind::kReduce && !work.replicas.empty()) {
    const auto count = static_cast<size_t>(work.replicas.size());
    if (tally_.contributors.size() < count) tally_.contributors.resize(count);
    ++tally_.contributors[count - 1];
  }
  if (work.kind != WorkKind::kMerge || work.replicas.empty()) return;
  const double lag = lag_of(work);
  tally_.recent_lag = tally_.merges == 0 ? lag : kFading * tally_.recent_lag + (1 - kFading) * lag;
  ++tally_.merges;
  tally_.lag_sum += lag;
  tally_.lag_max = std::max(tally_.lag_max, lag);
}

void TallyKeeper::predicted(const Prediction& prediction) {
  tally_.prediction_error_sum += prediction.error;
  ++tally_.predictions;
}

}  // namespace leeway
