#include "run/round_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RoundKeeperTest : public testing::Test {
 protected:
  // One worker of each replica takes part in a round, and its only chunk has this many
  // contributors.
  void hold_round(int64_t contributors, Lane lane = Lane::kMain) {
    WorkRecord record;
    record.work = {.kind = WorkKind::kContribute, .index = round_, .lane = lane};
    keeper_.worked(record);
    record.work.kind = WorkKind::kReduce;
    for (int64_t r = 0; r < contributors; ++r) record.work.replicas.add({r});
    keeper_.worked(record);
    ++round_;
  }
  std::optional<std::string> warning(double deadline_ms = -1) {
    AveragingOptions averaging;
    averaging.deadline_ms = deadline_ms;
    return keeper_.take_warning(averaging);
  }

  RoundKeeper keeper_{RunPlan{.shape = {}, .replicas = 3}};
  int64_t round_ = 0;
};

TEST_F(RoundKeeperTest, CountsMeansOfTheMainLaneByTheirContributors) {
  EXPECT_THAT(keeper_.statistics().contributors, ElementsAre(0, 0, 0));
  for (const int64_t contributors : {3, 1, 3, 0, 2, 3}) hold_round(contributors);
  hold_round(3, Lane::kEvaluation);
  hold_round(1, Lane::kRepair);
  EXPECT_THAT(keeper_.statistics().contributors, ElementsAre(1, 1, 3));
  EXPECT_EQ(keeper_.statistics().means(), 5) << "where all follow there is no mean";
  EXPECT_EQ(keeper_.statistics().contributors_text(), "1 1 3");
}

TEST_F(RoundKeeperTest, WarnsOnceIfMostMeansHaveOneContributor) {
  for (int i = 0; i < 25; ++i) hold_round(3);
  for (int i = 0; i < 25; ++i) hold_round(1);
  EXPECT_EQ(warning(), std::nullopt) << "half of them";
  hold_round(1);
  EXPECT_THAT(warning().value_or(""), HasSubstr("26 of 51 means have one contributor"));
  hold_round(1);
  EXPECT_EQ(warning(), std::nullopt) << "once";
}

TEST_F(RoundKeeperTest, TheWarningSaysWhatToDo) {
  for (int i = 0; i < 50; ++i) hold_round(1);
  RoundKeeper same = keeper_;
  EXPECT_THAT(warning(250).value_or(""), HasSubstr("later than averaging.deadline_ms=250 allows"));
  keeper_ = same;
  EXPECT_THAT(warning().value_or(""), HasSubstr("use a longer averaging.interval"));
}

TEST_F(RoundKeeperTest, DoesNotWarnOfAFewMeans) {
  for (int i = 0; i < 49; ++i) hold_round(1);
  EXPECT_EQ(warning(), std::nullopt);
  keeper_ = RoundKeeper(RunPlan{.shape = {}, .replicas = 3});
  for (int i = 0; i < 80; ++i) {
    hold_round(1);
    if (i % 10 != 0) --round_;  // many workers: ten means per round
  }
  EXPECT_EQ(warning(), std::nullopt) << "nine rounds";
}

TEST_F(RoundKeeperTest, DoesNotWarnOfOneReplica) {
  keeper_ = RoundKeeper(RunPlan{.shape = {}, .replicas = 1});
  for (int i = 0; i < 60; ++i) hold_round(1);
  EXPECT_EQ(warning(), std::nullopt);
}

}  // namespace
}  // namespace leeway
