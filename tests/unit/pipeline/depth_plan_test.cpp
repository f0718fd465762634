// Compares the planner with shares computed by hand, and with a pipeline that is played through.
#include "pipeline/depth_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace leeway {
namespace {

PipelineTimes equal_stages(int64_t stages, const StageTimes& stage, int64_t latency) {
  return {.stages = std::vector<StageTimes>(static_cast<size_t>(stages), stage),
          .hop = {.latency = {latency}, .transfer = {0}}};
}

// Plays a replica through in dependency order: every piece of work starts as soon as its stage is
// free and its message has arrived. No events, no formula.
class Played {
 public:
  Played(const PipelineShape& shape, const PipelineTimes& times)
      : shape_(shape), times_(times), stages_(static_cast<size_t>(shape.stages)) {
    for (size_t s = 0; s < stages_.size(); ++s)
      stages_[s].schedule.emplace_back(shape, StageId{static_cast<int64_t>(s)});
  }

  // Fraction of time that stage `s` is busy from update `first` to update `last`.
  double busy(size_t s, int64_t first, int64_t last) {
    while (stages_[0].at.updates < last) {
      bool moved = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage) moved = step(stage) || moved;
      EXPECT_TRUE(moved) << "deadlock";
      if (!moved) return 0;
    }
    const auto& ends = stages_[s].update_ends;
    const double span = ends[static_cast<size_t>(last - 1)] - ends[static_cast<size_t>(first - 1)];
    const StageTimes& t = times_.stages[s];
    const auto microbatches = static_cast<double>((last - first) * shape_.update_every);
    const auto work = static_cast<double>(t.forward.count + t.backward.count) * microbatches +
                      static_cast<double>(t.update.count * (last - first));
    return work / span;
  }

 private:
  static constexpr int64_t kNever = 1'000'000'000;  // the end of the run, when it would drain
  struct StageState {
    std::vector<Schedule> schedule;  // exactly one; it has no default
    Counts at;
    double free_at = 0;
    double up_link_free = 0;
    double down_link_free = 0;
    std::vector<double> activations;  // arrivals, by microbatch
    std::vector<double> gradients;
    std::vector<double> update_ends;
  };

  double send(double now, double& link_free) const {
    link_free = std::max(now, link_free) + static_cast<double>(times_.hop.transfer.count);
    return link_free + static_cast<double>(times_.hop.latency.count);
  }

  bool step(size_t s) {
    StageState& stage = stages_[s];
    const StageTimes& t = times_.stages[s];
    const Schedule& schedule = stage.schedule.front();
    const UpdateId flush = {shape_.synchronous() ? stage.at.updates + 1 : kNever};
    if (schedule.update_due(stage.at)) {
      stage.free_at += static_cast<double>(t.update.count);
      stage.update_ends.push_back(stage.free_at);
      ++stage.at.updates;
      return true;
    }
    const bool top = s + 1 == stages_.size();
    if (schedule.wants_forward(stage.at, flush)) {
      const auto m = static_cast<size_t>(stage.at.forwards);
      if (s > 0 && stage.activations.size() <= m) return false;
      const double arrived = s > 0 ? stage.activations[m] : 0;
      stage.free_at = std::max(stage.free_at, arrived) + static_cast<double>(t.forward.count);
      ++stage.at.forwards;
      if (!top) stages_[s + 1].activations.push_back(send(stage.free_at, stage.up_link_free));
      return true;
    }
    if (!schedule.wants_backward(stage.at, flush)) return false;
    const auto m = static_cast<size_t>(stage.at.backwards);
    if (!top && stage.gradients.size() <= m) return false;
    const double arrived = top ? 0 : stage.gradients[m];
    stage.free_at = std::max(stage.free_at, arrived) + static_cast<double>(t.backward.count);
    ++stage.at.backwards;
    if (s > 0) stages_[s - 1].gradients.push_back(send(stage.free_at, stage.down_link_free));
    return true;
  }

  PipelineShape shape_;
  PipelineTimes times_;
  std::vector<StageState> stages_;
};

constexpr StageTimes kUnit = {.forward = {1000}, .backward = {2000}, .update = {0}};

TEST(DepthPlan, IsTwiceTheLatencyOverTheSlotRoundedUp) {
  const auto extra = [](int64_t latency) {
    return plan_depth(equal_stages(4, kUnit, latency), 4).extra_per_hop;
  };
  EXPECT_EQ(extra(0), 0);
  EXPECT_EQ(extra(1), 1);
  EXPECT_EQ(extra(1500), 1);
  EXPECT_EQ(extra(1501), 2);
  EXPECT_EQ(extra(3000), 2);
  EXPECT_EQ(extra(15000), 10);
  EXPECT_EQ(plan_depth(equal_stages(1, kUnit, 15000), 1).extra_per_hop, 0);
}

TEST(DepthPlan, CountsTheUpdatesShareOfASlot) {
  const StageTimes stage = {.forward = {1000}, .backward = {2000}, .update = {4000}};
  const DepthPlan plan = plan_depth(equal_stages(2, stage, 4000), 4);
  EXPECT_EQ(plan.slot.count, 4000);
  EXPECT_EQ(plan.extra_per_hop, 2);
}

// The neighbours of a slow stage have time to spare, which hides some latency.
TEST(DepthPlan, SlowStagesNeedLessDepth) {
  PipelineTimes times = equal_stages(3, kUnit, 1500);
  EXPECT_EQ(plan_depth(times, 1).extra_per_hop, 1);
  times.stages[1] = {.forward = {2000}, .backward = {4000}, .update = {0}};
  EXPECT_EQ(plan_depth(times, 1).slot.count, 6000);
  EXPECT_EQ(plan_depth(times, 1).extra_per_hop, 0);
}

TEST(DepthPlan, SaysWhenTheLinkIsTheBottleneck) {
  PipelineTimes times = equal_stages(2, kUnit, 0);
  times.hop.transfer = {3000};
  EXPECT_FALSE(plan_depth(times, 1).link_bound);
  EXPECT_EQ(plan_depth(times, 1).extra_per_hop, 2);  // transfers count both ways too
  times.hop.transfer = {6000};
  const DepthPlan plan = plan_depth(times, 1);
  EXPECT_TRUE(plan.link_bound);
  const PipelineShape deep = {.stages = 2, .update_every = 1, .extra_per_hop = plan.extra_per_hop};
  EXPECT_DOUBLE_EQ(busy_share(deep, times), 0.5);  // the most possible
  const PipelineShape deeper = {.stages = 2, .update_every = 1, .extra_per_hop = 100};
  EXPECT_DOUBLE_EQ(busy_share(deeper, times), 0.5);
}

TEST(BusyShare, ByHand) {
  const auto busy = [](PipelineSchedule order, int64_t k, int64_t extra, int64_t latency) {
    const PipelineShape shape = {
        .order = order, .stages = 4, .update_every = k, .extra_per_hop = extra};
    return busy_share(shape, equal_stages(4, kUnit, latency));
  };
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::kAsync, 4, 0, 0), 1);
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::kGpipe, 8, 0, 0), 8.0 / 11);
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::k1f1b, 8, 0, 0), 8.0 / 11);
  // Four slots of 3 us in flight, a round trip of 12 + 6 us.
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::kAsync, 4, 0, 1000), 12.0 / 18);
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::kAsync, 4, 1, 1000), 1);
  // 8 slots of 24 us; gpipe waits for 6 us of messages once, 33 + 6 in all.
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::kGpipe, 8, 0, 1000), 24.0 / 39);
  // 1f1b goes four microbatches at a time: a turn of 3 hops, then one of 2, each hop 2 us more.
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::k1f1b, 8, 0, 1000), 24.0 / 49);
  EXPECT_DOUBLE_EQ(busy(PipelineSchedule::k1f1b, 1, 0, 1000), 3.0 / 18);
  EXPECT_DOUBLE_EQ(busy_share({.stages = 1, .update_every = 1}, equal_stages(1, kUnit, 9)), 1);
}

// Random values from a seed: a failure names the case, which can be repeated alone.
class Drawn {
 public:
  explicit Drawn(int64_t index) : index_(index) {}
  int64_t between(int64_t min, int64_t max) {
    const RandomKey key = {.seed = 7, .name = static_cast<uint64_t>(index_)};
    return min +
           static_cast<int64_t>(random_bits(key, count_++) % static_cast<uint64_t>(max - min + 1));
  }

 private:
  int64_t index_;
  uint64_t count_ = 0;
};

TEST(BusyShare, EqualsAPipelinePlayedThrough) {
  for (int64_t index = 0; index < 200; ++index) {
    Drawn draw(index);
    const PipelineShape shape = {.order = static_cast<PipelineSchedule>(draw.between(0, 2)),
                                 .stages = draw.between(2, 6),
                                 .update_every = draw.between(1, 12),
                                 .extra_per_hop = draw.between(0, 3)};
    const StageTimes stage = {
        .forward = {draw.between(1, 50)}, .backward = {draw.between(1, 90)}, .update = {0}};
    const PipelineTimes times = equal_stages(shape.stages, stage, draw.between(0, 150));
    const double played = Played(shape, times).busy(0, 200, 600);
    EXPECT_NEAR(busy_share(shape, times), played, 2e-3)
        << "case " << index << ": order " << static_cast<int>(shape.order) << ", P " << shape.stages
        << ", K " << shape.update_every << ", extra " << shape.extra_per_hop << ", f "
        << stage.forward.count << ", g " << stage.backward.count << ", L "
        << times.hop.latency.count;
  }
}

// Unequal stages, transfers and updates: the planned depth keeps the slowest busy, one less does
// not, and the remaining share is the predicted one.
TEST(DepthPlan, IsTheSmallestThatKeepsTheSlowestBusy) {
  int64_t deep = 0;
  for (int64_t index = 0; index < 100; ++index) {
    Drawn draw(1000 + index);
    PipelineTimes times = {
        .hop = {.latency = {draw.between(0, 300)}, .transfer = {draw.between(0, 40)}}};
    for (int64_t s = draw.between(2, 6); s > 0; --s) {
      times.stages.push_back({.forward = {draw.between(20, 60)},
                              .backward = {draw.between(40, 120)},
                              .update = {draw.between(0, 30)}});
    }
    const int64_t k = draw.between(2, 12);
    const auto slot = [&](const StageTimes& t) {
      return (t.forward.count + t.backward.count) * k + t.update.count;
    };
    size_t slowest = 0;
    for (size_t s = 1; s < times.stages.size(); ++s)
      if (slot(times.stages[s]) > slot(times.stages[slowest])) slowest = s;
    const DepthPlan plan = plan_depth(times, k);
    ASSERT_FALSE(plan.link_bound);
    PipelineShape shape = {
        .stages = std::ssize(times.stages), .update_every = k, .extra_per_hop = plan.extra_per_hop};
    EXPECT_DOUBLE_EQ(busy_share(shape, times), 1) << "case " << index;
    EXPECT_GT(Played(shape, times).busy(slowest, 200, 600), 0.95) << "case " << index;
    if (plan.extra_per_hop == 0) continue;
    ++deep;
    --shape.extra_per_hop;
    EXPECT_LT(busy_share(shape, times), 1) << "case " << index;
    EXPECT_NEAR(busy_share(shape, times), Played(shape, times).busy(slowest, 200, 600), 0.06)
        << "case " << index;
  }
  EXPECT_GT(deep, 20);
}

}  // namespace
}  // namespace leeway
