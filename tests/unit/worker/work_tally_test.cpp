#include "worker/work_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;

class TallyKeeperTest : public testing::Test {
 protected:
  void work(const Work& work, int64_t begin = 0, int64_t end = 0, int64_t bytes = 0) {
    keeper_.worked({.worker = {}, .work = work, .times = {{begin}, {end}}, .bytes_sent = bytes});
  }
  const WorkTally& tally() const { return keeper_.tally(); }

  RunPlan plan_ = {.shape = {.stages = 2}, .lanes = {{.lane = Lane::kMain, .replicas = 3}}};
  TallyKeeper keeper_{{}, plan_};
};

TEST_F(TallyKeeperTest, CountsBytesByPurpose) {
  work({.kind = WorkKind::kForward}, 0, 0, 1);
  work({.kind = WorkKind::kBackward}, 0, 0, 2);
  work({.kind = WorkKind::kContribute}, 0, 0, 4);
  work({.kind = WorkKind::kReduce}, 0, 0, 8);
  work({.kind = WorkKind::kContribute, .lane = Lane::kEvaluation}, 0, 0, 16);
  work({.kind = WorkKind::kEvaluate}, 0, 0, 32);
  EXPECT_EQ(tally().bytes, (PurposeBytes{1, 2, 12, 48, 16}));
}

TEST_F(TallyKeeperTest, BusyEndsWithTheLastUpdate) {
  work({.kind = WorkKind::kForward}, 100, 110);
  work({.kind = WorkKind::kBackward}, 150, 170);
  work({.kind = WorkKind::kUpdate}, 190, 200);
  work({.kind = WorkKind::kEvaluate}, 200, 900);
  EXPECT_EQ(tally().begin, Nanos{100});
  EXPECT_EQ(tally().end, Nanos{200});
  EXPECT_EQ(tally().busy, Nanos{40});
  EXPECT_EQ(tally().evaluating, Nanos{700});
}

TEST_F(TallyKeeperTest, CountsMeansOfTheMainLaneByTheirContributors) {
  for (const int64_t contributors : {3, 1, 3, 0, 2, 3}) {
    Work reduce = {.kind = WorkKind::kReduce};
    reduce.replicas = ReplicaSet::first(contributors);
    work(reduce);
    reduce.lane = Lane::kEvaluation;
    work(reduce);
  }
  EXPECT_THAT(tally().contributors, ElementsAre(1, 1, 3)) << "where all follow there is no mean";
}

TEST_F(TallyKeeperTest, CountsRoundsAndTheirLag) {
  EXPECT_EQ(tally().first_round, -1);
  for (const int64_t round : {5, 6, 9}) {
    work({.kind = WorkKind::kContribute, .index = round, .update = 2 * round});
    Work merge = {.kind = WorkKind::kMerge, .index = round, .delay = round - 4};
    merge.replicas = ReplicaSet::of({0});
    work(merge);
    merge.replicas = {};
    merge.delay = 1000;
    work(merge);
  }
  EXPECT_EQ(tally().first_round, 5);
  EXPECT_EQ(tally().next_round, 10);
  EXPECT_EQ(tally().longest_interval, 6);
  EXPECT_EQ(tally().merges, 3) << "of parts that it had sent";
  EXPECT_EQ(tally().lag_sum, 1 + 2 + 5);
  EXPECT_EQ(tally().lag_max, 5);
  EXPECT_DOUBLE_EQ(tally().recent_lag, 0.98 * (0.98 * 1 + 0.02 * 2) + 0.02 * 5);
}

TEST_F(TallyKeeperTest, ALagInsideAnUpdateIsAFraction) {
  Work merge = {.kind = WorkKind::kMerge, .delay = 1, .position = 1, .positions = 4};
  merge.replicas = ReplicaSet::of({0});
  work(merge);
  merge.delay = 0;
  work(merge);
  EXPECT_DOUBLE_EQ(tally().lag_sum, 1.25 + 0.25);
  EXPECT_DOUBLE_EQ(tally().lag_max, 1.25);
}

TEST_F(TallyKeeperTest, AddsUpPredictionErrors) {
  keeper_.predicted({.worker = {}, .update = 1, .delay = 1, .error = 0.5});
  keeper_.predicted({.worker = {}, .update = 2, .delay = 1, .error = 0.75});
  EXPECT_EQ(tally().predictions, 2);
  EXPECT_DOUBLE_EQ(tally().prediction_error_sum, 1.25);
}

}  // namespace
}  // namespace leeway
