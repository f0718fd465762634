#include "run/round_statistics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace leeway {
namespace {

// Fewer say nothing: replicas do not begin at the same moment.
constexpr int64_t kMeansEnough = 50;
constexpr int64_t kRoundsEnough = 10;

// Rounds of the main lane before this session.
int64_t rounds_before(const RunPlan& plan) {
  const auto main = std::ranges::find(plan.lanes, Lane::kMain, &LanePlan::lane);
  const auto at = static_cast<size_t>(main - plan.lanes.begin());
  int64_t rounds = 0;
  if (at == plan.lanes.size()) return rounds;
  for (const ReplicaStart& start : plan.starts) {
    for (const auto& lanes : start.rounds) rounds = std::max(rounds, lanes[at]);
  }
  return rounds;
}

}  // namespace

int64_t RoundStatistics::means() const {
  return std::accumulate(contributors.begin(), contributors.end(), int64_t{0});
}

std::string RoundStatistics::contributors_text() const {
  return fmt::format("{}", fmt::join(contributors, " "));
}

RoundStatistics round_statistics(const RunPlan& plan, const Tallies& tallies) {
  RoundStatistics all;
  all.rounds = rounds_before(plan);
  all.contributors.assign(static_cast<size_t>(plan.replicas), 0);
  std::optional<int64_t> first_round;
  int64_t merging = 0;
  double lag_sum = 0, recent_lag_sum = 0, spread = 0, scale = 0;
  const bool common = std::ranges::any_of(plan.lanes, &LanePlan::common);
  for (const auto& [worker, tally] : tallies) {
    // Contributions to a common model are numbered from 1; one that came back has other numbers.
    const int64_t begun = tally.next_round - (common ? 1 : 0);
    const bool own_numbers = common && begun > plan.updates_max();
    if (!own_numbers) all.rounds = std::max(all.rounds, begun);
    all.longest_interval = std::max(all.longest_interval, tally.longest_interval);
    all.merges += tally.merges;
    all.lag_max = std::max(all.lag_max, tally.lag_max);
    lag_sum += tally.lag_sum;
    spread += tally.spread;
    scale += tally.scale;
    const int64_t first = tally.first_round - (common ? 1 : 0);
    if (tally.first_round >= 0) first_round = std::min(first_round.value_or(first), first);
    if (tally.merges > 0) {
      recent_lag_sum += tally.recent_lag;
      ++merging;
    }
    const size_t sizes = std::min(tally.contributors.size(), all.contributors.size());
    for (size_t i = 0; i < sizes; ++i) all.contributors[i] += tally.contributors[i];
  }
  if (first_round) all.session_rounds = all.rounds - *first_round;
  if (merging > 0) {
    all.lag_mean = lag_sum / static_cast<double>(all.merges);
    all.recent_lag = recent_lag_sum / static_cast<double>(merging);
  }
  if (scale > 0) all.consensus = std::sqrt(spread / scale);
  return all;
}

std::optional<std::string> contributors_warning(const RoundStatistics& rounds,
                                                const AveragingOptions& averaging) {
  const int64_t means = rounds.means();
  const int64_t alone = rounds.contributors.front();
  const bool enough = means >= kMeansEnough && rounds.session_rounds >= kRoundsEnough;
  if (rounds.contributors.size() == 1 || !enough || 2 * alone <= means) return std::nullopt;
  const std::string why =
      averaging.merge == MergePolicy::kFixedLag
          ? "with averaging.merge=fixed_lag all that are there are waited for, so the others have "
            "left: find out why, or have them join again"
      : averaging.deadline_ms < 0
          ? "the others' parts come more than two rounds after the first, or not at all: use a "
            "longer averaging.interval, or averaging.merge=fixed_lag, which waits"
          : fmt::format(
                "the others' parts come later than averaging.deadline_ms={:g} allows: leave "
                "it out, so that it follows the time between updates, or raise it",
                averaging.deadline_ms);
  return fmt::format("{} of {} means have one contributor, so the replicas hardly average; {}",
                     alone, means, why);
}

}  // namespace leeway
