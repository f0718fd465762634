#include "run/round_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RoundStatistics statistics_of(const Tallies& tallies, int64_t replicas = 3) {
  return round_statistics(RunPlan{.shape = {}, .replicas = replicas}, tallies);
}

// After this many rounds, in which so many means had one contributor, two and three.
RoundStatistics after(int64_t rounds, std::vector<int64_t> contributors) {
  Tallies tallies;
  tallies[{}] = {.first_round = 0, .next_round = rounds, .contributors = std::move(contributors)};
  return statistics_of(tallies);
}

std::optional<std::string> warning(const RoundStatistics& rounds, double deadline_ms = -1) {
  AveragingOptions averaging;
  averaging.deadline_ms = deadline_ms;
  return contributors_warning(rounds, averaging);
}

TEST(ContributorsWarning, AdvisesNoLagWhereThereIsOne) {
  const RoundStatistics alone = after(1000, {1000});
  AveragingOptions averaging;
  averaging.merge = MergePolicy::kFixedLag;
  const std::string text = contributors_warning(alone, averaging).value();
  EXPECT_THAT(text, testing::HasSubstr("the others have left"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("interval")));
  averaging.merge = MergePolicy::kOnArrival;
  EXPECT_THAT(contributors_warning(alone, averaging).value(),
              testing::HasSubstr("or averaging.merge=fixed_lag, which waits"));
}

TEST(RoundStatistics, AddsUpWhatTheWorkersHaveDone) {
  Tallies tallies;
  tallies[{{0}, {0}}] = {.first_round = 3,
                         .next_round = 10,
                         .longest_interval = 2,
                         .merges = 4,
                         .lag_sum = 8,
                         .lag_max = 3,
                         .recent_lag = 2,
                         .spread = 1,
                         .scale = 50,
                         .contributors = {1}};
  tallies[{{1}, {0}}] = {.first_round = 4,
                         .next_round = 9,
                         .longest_interval = 5,
                         .merges = 1,
                         .lag_sum = 4,
                         .lag_max = 4,
                         .recent_lag = 4,
                         .spread = 3,
                         .scale = 50,
                         .contributors = {0, 2, 7}};
  tallies[{{2}, {0}}] = {};
  const RoundStatistics all = statistics_of(tallies);
  EXPECT_EQ(all.rounds, 10);
  EXPECT_EQ(all.session_rounds, 7);
  EXPECT_EQ(all.longest_interval, 5);
  EXPECT_EQ(all.merges, 5);
  EXPECT_DOUBLE_EQ(all.lag_mean.value(), 12.0 / 5);
  EXPECT_EQ(all.lag_max, 4);
  EXPECT_DOUBLE_EQ(all.recent_lag, 3) << "who has merged nothing has no lag";
  EXPECT_DOUBLE_EQ(all.consensus.value(), 0.2);
  EXPECT_THAT(all.contributors, ElementsAre(1, 2, 7));
  EXPECT_EQ(all.means(), 10);
  EXPECT_EQ(all.contributors_text(), "1 2 7");
}

TEST(RoundStatistics, ARunWithoutRoundsHasNone) {
  const RoundStatistics none = statistics_of({});
  EXPECT_EQ(none.rounds, 0);
  EXPECT_FALSE(none.lag_mean.has_value());
  EXPECT_FALSE(none.consensus.has_value());
  EXPECT_THAT(none.contributors, ElementsAre(0, 0, 0));
}

TEST(RoundStatistics, RoundsOfEarlierSessionsCount) {
  RunPlan plan = {.shape = {}, .replicas = 2};
  plan.lanes = {{.lane = Lane::kMain}};
  plan.starts = {{.update = 5, .rounds = {{40}}}, {.update = 5, .rounds = {{41}}}};
  EXPECT_EQ(round_statistics(plan, {}).rounds, 41);
}

TEST(ContributorsWarning, ComesIfMostMeansHaveOneContributor) {
  EXPECT_EQ(warning(after(20, {25, 0, 25})), std::nullopt) << "half of them";
  EXPECT_THAT(warning(after(20, {26, 0, 25})).value_or(""),
              HasSubstr("26 of 51 means have one contributor"));
}

TEST(ContributorsWarning, SaysWhatToDo) {
  const RoundStatistics alone = after(50, {50});
  EXPECT_THAT(warning(alone, 250).value_or(""),
              HasSubstr("later than averaging.deadline_ms=250 allows"));
  EXPECT_THAT(warning(alone).value_or(""), HasSubstr("use a longer averaging.interval"));
}

TEST(ContributorsWarning, DoesNotComeForAFewMeans) {
  EXPECT_EQ(warning(after(49, {49})), std::nullopt);
  EXPECT_EQ(warning(after(9, {80})), std::nullopt) << "many workers, nine rounds";
}

TEST(ContributorsWarning, DoesNotComeForOneReplica) {
  Tallies tallies;
  tallies[{}] = {.first_round = 0, .next_round = 60, .contributors = {60}};
  EXPECT_EQ(warning(statistics_of(tallies, 1)), std::nullopt);
}

}  // namespace
}  // namespace leeway
