#include "run/round_statistics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <utility>

namespace leeway {
namespace {

constexpr double kFading = 0.98;  // decay of recent values, per merge

// Fewer say nothing: replicas do not begin at the same moment.
constexpr int64_t kMeansEnough = 50;
constexpr int64_t kRoundsEnough = 10;

}  // namespace

int64_t RoundStatistics::means() const {
  return std::accumulate(contributors.begin(), contributors.end(), int64_t{0});
}

std::string RoundStatistics::contributors_text() const {
  return fmt::format("{}", fmt::join(contributors, " "));
}

RoundKeeper::RoundKeeper(const RunPlan& plan) {
  statistics_.contributors.assign(static_cast<size_t>(plan.replicas), 0);
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
    if (!first_round_) first_round_ = work.index;
    const auto [before, first] = contributed_at_.try_emplace(record.worker, work.update);
    if (!first) longest_interval_ = std::max(longest_interval_, work.update - before->second);
    before->second = work.update;
  }
  if (work.kind == WorkKind::kReduce && !work.replicas.empty()) {
    ++statistics_.contributors.at(static_cast<size_t>(work.replicas.size() - 1));
  }
  if (work.kind != WorkKind::kMerge || work.replicas.empty()) return;
  const auto lag = static_cast<double>(work.delay);
  recent_lag_ = statistics_.merges == 0 ? lag : kFading * recent_lag_ + (1 - kFading) * lag;
  ++statistics_.merges;
  lag_sum_ += work.delay;
  statistics_.lag_max = std::max(statistics_.lag_max, work.delay);
}

std::optional<std::string> RoundKeeper::take_warning(const AveragingOptions& averaging) {
  const int64_t means = statistics_.means();
  const int64_t alone = statistics_.contributors.front();
  const bool enough =
      means >= kMeansEnough && first_round_ && statistics_.rounds - *first_round_ >= kRoundsEnough;
  if (warned_ || statistics_.contributors.size() == 1 || !enough || 2 * alone <= means) return {};
  warned_ = true;
  const std::string why =
      averaging.deadline_ms < 0
          ? "the others' parts come more than two rounds after the first, or not at all: use a "
            "longer averaging.interval, or averaging.merge=fixed_lag, which waits"
          : fmt::format(
                "the others' parts come later than averaging.deadline_ms={:g} allows: leave "
                "it out, so that it follows the time between updates, or raise it",
                averaging.deadline_ms);
  return fmt::format("{} of {} means have one contributor, so the replicas hardly average; {}",
                     alone, means, why);
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
