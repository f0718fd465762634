#include "worker/deadline.h"

#include <gtest/gtest.h>

#include "worker/update_time.h"

namespace leeway {
namespace {

constexpr Nanos kSecond = {1'000'000'000};

LanePlan following(int64_t replicas, int64_t interval = 1) {
  LanePlan plan = {.replicas = replicas, .interval = interval};
  plan.deadline = kSecond;
  plan.deadline_follows = true;
  return plan;
}

FleetPace pace_of(std::initializer_list<int64_t> seconds) {
  FleetPace pace;
  for (const int64_t each : seconds) pace.update_times.push_back(kSecond * each);
  return pace;
}

TEST(Deadline, ANumberInTheRecipeStaysAsItIs) {
  LanePlan plan = following(2);
  plan.deadline_follows = false;
  EXPECT_EQ(deadline_of(plan, pace_of({100, 100})), kSecond);
}

TEST(Deadline, FollowsTheSlowestReplica) {
  EXPECT_EQ(deadline_of(following(3), pace_of({5, 7, 5})), kSecond * 14);
  EXPECT_EQ(deadline_of(following(3, /*interval=*/10), pace_of({5, 7, 5})), kSecond * 140);
  FleetPace stretched = pace_of({5, 5, 5});
  stretched.stretch = 3;
  EXPECT_EQ(deadline_of(following(3), stretched), kSecond * 30);
}

TEST(Deadline, IsNoShorterThanTheShortest) {
  FleetPace pace;
  pace.update_times.assign(2, Nanos{1000});
  EXPECT_EQ(deadline_of(following(2), pace), kSecond);
}

// One slow replica must not make every mean late.
TEST(Deadline, IsAtMostEightRoundsOfATypicalReplica) {
  EXPECT_EQ(deadline_of(following(4), pace_of({2, 2, 100, 2})), kSecond * 16);
  EXPECT_EQ(deadline_of(following(2), pace_of({2, 100})), kSecond * 16);
}

TEST(Deadline, IsGenerousToReplicasItKnowsNothingAbout) {
  EXPECT_EQ(deadline_of(following(3), pace_of({5, 0, 5})), kSecond * 40);
  EXPECT_EQ(deadline_of(following(3), pace_of({0, 0, 0})), kSecond * 8);
}

TEST(Deadline, DoesNotFollowAReplicaThatIsAbsent) {
  FleetPace pace = pace_of({5, 0, 9});
  pace.absent.add({1});
  EXPECT_EQ(deadline_of(following(3), pace), kSecond * 18);
  pace.absent.add({2});
  EXPECT_EQ(deadline_of(following(3), pace), kSecond * 10);
}

TEST(Deadline, SaturatesWhateverAMessageSays) {
  FleetPace pace;
  pace.update_times.assign(2, Nanos::max());
  EXPECT_EQ(deadline_of(following(2), pace), Nanos::max());
}

WorkTimes between(int64_t begin, int64_t end) { return {.begin = {begin}, .end = {end}}; }

TEST(UpdateTime, CountsTheFirstUpdateFromTheFirstPieceOfWork) {
  UpdateTime time;
  EXPECT_EQ(time.get(), Nanos{0});
  time.finished(WorkKind::kForward, between(100, 110));
  time.finished(WorkKind::kBackward, between(110, 140));
  EXPECT_EQ(time.get(), Nanos{0});
  time.finished(WorkKind::kUpdate, between(140, 150));
  EXPECT_EQ(time.get(), Nanos{50});
}

TEST(UpdateTime, IsNotDisturbedByOneLongPause) {
  UpdateTime time;
  int64_t now = 0;
  const auto update = [&](int64_t length) {
    time.finished(WorkKind::kForward, between(now, now + length / 2));
    now += length;
    time.finished(WorkKind::kUpdate, between(now - 1, now));
  };
  for (int i = 0; i < 5; ++i) update(10);
  update(100'000);
  update(10);
  EXPECT_EQ(time.get(), Nanos{10});
  for (int i = 0; i < 3; ++i) update(40);
  EXPECT_EQ(time.get(), Nanos{40}) << "updates do take longer now";
}

TEST(UpdateTime, IgnoresUpdatesWithoutTimes) {
  UpdateTime time;
  time.finished(WorkKind::kUpdate, between(90, 100));
  time.finished(WorkKind::kUpdate, {});
  EXPECT_EQ(time.get(), Nanos{10});
}

}  // namespace
}  // namespace leeway
