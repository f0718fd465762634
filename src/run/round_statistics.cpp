#include "run/round_statistics.h"

#include <cmath>

namespace leeway {
namespace {

constexpr double kFading = 0.98;  // decay of recent values, per merge

}  // namespace

RoundKeeper::RoundKeeper(const RunPlan& plan) {
  for (const LanePlan& lane : plan.lanes) {
    if (!lane.gradients && !lane.needs_every) weights_lane_ = lane.lane;
  }
  const auto main = std::ranges::find(plan.lanes, Lane::kMain, &LanePlan::lane);
  const auto at = static_cast<size_t>(main - plan.lanes.begin());
  for (const ReplicaStart& start : plan.starts) {
    for (const auto& lanes : start.rounds)
      if (at < plan.lanes.size()) statistics_.rounds = std::max(statistics_.rounds, lanes[at]);
  }
}

void RoundKeeper::worked(const WorkRecord& record) {
  const Work& work = record.work;
  if (!is_of_round(work.kind)) return;
  if (work.kind == WorkKind::kReduce && work.lane == weights_lane_ && record.norms) {
    spread_ = kFading * spread_ + record.norms->spread;
    scale_ = kFading * scale_ + record.norms->scale;
  }
  if (work.lane != Lane::kMain) return;
  if (work.kind == WorkKind::kContribute) {
    statistics_.rounds = std::max(statistics_.rounds, work.index + 1);
    const auto [before, first] = contributed_at_.try_emplace(record.worker, work.update);
    if (!first) longest_interval_ = std::max(longest_interval_, work.update - before->second);
    before->second = work.update;
  }
  if (work.kind != WorkKind::kMerge || work.replicas.empty()) return;
  const auto lag = static_cast<double>(work.delay);
  recent_lag_ = statistics_.merges == 0 ? lag : kFading * recent_lag_ + (1 - kFading) * lag;
  ++statistics_.merges;
  lag_sum_ += work.delay;
  statistics_.lag_max = std::max(statistics_.lag_max, work.delay);
}

RoundStatistics RoundKeeper::statistics() const {
  RoundStatistics now = statistics_;
  if (now.merges > 0) {
    now.lag_mean = static_cast<double>(lag_sum_) / static_cast<double>(now.merges);
  }
  if (scale_ > 0) now.consensus = std::sqrt(spread_ / scale_);
  return now;
}

}  // namespace leeway
