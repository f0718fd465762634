#include "pipeline/memory_plan.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "middle_stage.h"

namespace leeway {
namespace {

// A real stage that does its work in the schedule's order.
class Driven {
 public:
  Driven(const Schedule& schedule, const StageOptions& options, const Boundaries& boundaries)
      : schedule_(schedule),
        options_(options),
        guesses_(boundaries.guesses),
        merge_position_(boundaries.merge_position),
        stage_(options) {
    at::set_num_threads(1);  // these tensors are tiny: a second thread only waits
  }

  // `flush_every`: updates between two flush points.
  void run(int64_t updates, int64_t flush_every) {
    while (at_.updates < updates) {
      const int64_t next = (at_.updates / flush_every + 1) * flush_every;
      const UpdateId flush = {std::min(next, updates)};
      if (schedule_.update_due(at_)) {
        stage_.update(1, 1);
        ++at_.updates;
      } else if (schedule_.wants_forward(at_, flush)) {
        const MicrobatchId m = {at_.forwards};
        stage_.forward(m, ahead(schedule_.delay(m, {at_.updates})), at::ones({1, 2, 8}));
        ++at_.forwards;
        in_flight_max_ = std::max(in_flight_max_, stage_.in_flight_count());
      } else {
        stage_.backward({at_.backwards}, at::ones({1, 2, 8}));
        ++at_.backwards;
        const bool merges = at_.backwards % schedule_.update_every() == merge_position_;
        if (merges && merge_position_ > 0) stage_.writable_copy();
      }
    }
  }

  const Stage& stage() const { return stage_; }
  int64_t in_flight_max() const { return in_flight_max_; }

 private:
  Ahead ahead(int64_t delay) {
    if (delay == 0) return {};
    if (guesses_ == 0) return {.delay = delay, .guess = options_.horizon > 0 ? delay : 0};
    const int64_t every = schedule_.update_every();
    const int64_t late = at_.backwards % every - (every - schedule_.warmup());
    const int64_t count = std::min(guesses_, schedule_.warmup());
    const int64_t guess = 1 + late * count / schedule_.warmup();
    if (!stage_.has_guess(guess)) stage_.make_guess(guess, 1, 1);
    return {.delay = delay, .guess = guess};
  }

  Schedule schedule_;
  StageOptions options_;
  int64_t guesses_;
  int64_t merge_position_;
  Stage stage_;
  Counts at_;
  int64_t in_flight_max_ = 0;
};

constexpr int64_t kNever = 1'000'000;

// The first of two stages: it runs ahead by 1 + extra, which can be any depth.
Schedule schedule_of(PipelineSchedule order, int64_t depth, int64_t update_every) {
  return Schedule(
      {.order = order, .stages = 2, .update_every = update_every, .extra_per_hop = depth - 1}, {0});
}

struct Keeping {
  bool recompute = false;
  bool stash = true;
};
constexpr Keeping kKeepings[] = {{}, {true, true}, {true, false}};

void expect_peak(const Schedule& schedule, const StageOptions& options,
                 const Boundaries& boundaries) {
  Driven driven(schedule, options, boundaries);
  driven.run(12 + 3 * schedule.delay_max(), kNever);
  EXPECT_EQ(version_count_max(schedule, options, boundaries), driven.stage().versions_peak())
      << "W " << schedule.warmup() << ", K " << schedule.update_every() << ", horizon "
      << options.horizon << ", guesses " << boundaries.guesses << ", a merge after "
      << boundaries.merge_position << ", recompute " << options.recompute << ", stash "
      << options.stash;
}

TEST(VersionCount, MatchesARealStage) {
  for (const auto& [recompute, stash] : kKeepings) {
    StageOptions options = middle_stage();
    options.recompute = recompute;
    options.stash = stash;
    for (int64_t depth = 1; depth <= 9; ++depth) {
      for (int64_t every = 1; every <= 7; ++every) {
        const Schedule schedule = schedule_of(PipelineSchedule::kAsync, depth, every);
        for (const double horizon : {0.0, 0.5}) {
          options.horizon = horizon;
          expect_peak(schedule, options, {});
        }
      }
    }
  }
}

TEST(VersionCount, MatchesARealStageThatGuesses) {
  for (const auto& [recompute, stash] : kKeepings) {
    StageOptions options = middle_stage();
    options.recompute = recompute;
    options.stash = stash;
    for (int64_t depth = 1; depth <= 6; ++depth) {
      for (int64_t every = depth + 1; every <= 9; ++every) {
        const Schedule schedule = schedule_of(PipelineSchedule::kAsync, depth, every);
        for (const int64_t guesses : {1, 2, 3, 9}) {
          expect_peak(schedule, options, {.guesses = guesses});
        }
      }
    }
  }
}

TEST(VersionCount, OfLongUpdatesAndDeepPipelinesIsThatOfShortOnes) {
  const Boundaries guessing = {.guesses = 2};
  const auto count = [](int64_t depth, int64_t every, const Boundaries& boundaries) {
    return version_count_max(schedule_of(PipelineSchedule::kAsync, depth, every), middle_stage(),
                             boundaries);
  };
  EXPECT_EQ(count(3, 1'000'000, guessing), count(3, 20, guessing));
  EXPECT_EQ(count(1'000'000, 1, {}), 1'000'001);
  EXPECT_EQ(count(1'000'000, 1000, {}), 1001);
  for (const int64_t back : {1, 2, 3}) {
    EXPECT_EQ(count(3, 1'000'000, {.guesses = 2, .merge_position = 1'000'000 - back}),
              count(3, 20, {.guesses = 2, .merge_position = 20 - back}));
  }
  EXPECT_EQ(count(3, 1'000'000, {.guesses = 2, .merge_position = 500'000}),
            count(3, 20, {.guesses = 2, .merge_position = 10}));
}

// Each merge inside an update makes the versions before it old: those of both sides may be held.
TEST(VersionCount, MatchesARealStageThatMergesInsideAnUpdate) {
  StageOptions options = middle_stage();
  for (int64_t depth = 1; depth <= 6; ++depth) {
    for (int64_t every = 2; every <= 8; ++every) {
      const Schedule schedule = schedule_of(PipelineSchedule::kAsync, depth, every);
      for (int64_t position = 1; position < every; ++position) {
        for (const double horizon : {0.0, 0.5}) {
          options.horizon = horizon;
          expect_peak(schedule, options, {.merge_position = position});
        }
        options.horizon = 0;
        if (every <= depth) continue;
        expect_peak(schedule, options, {.guesses = 2, .merge_position = position});
      }
    }
  }
}

TEST(VersionCount, OnArrivalIsThatOfTheWorstPlace) {
  for (int64_t depth = 1; depth <= 6; ++depth) {
    for (const int64_t every : {1, 2, 7, 16, 80}) {
      const Schedule schedule = schedule_of(PipelineSchedule::kAsync, depth, every);
      for (const int64_t guesses : {0, 2}) {
        if (guesses > 0 && every <= depth) continue;
        int64_t most = 0;
        for (int64_t position = 0; position < every; ++position) {
          const Boundaries there = {.guesses = guesses, .merge_position = position};
          most = std::max(most, version_count_max(schedule, middle_stage(), there));
        }
        const Boundaries anywhere = {.guesses = guesses, .merge_position = Boundaries::kAnywhere};
        EXPECT_EQ(version_count_max(schedule, middle_stage(), anywhere), most)
            << "W " << depth << ", K " << every << ", guesses " << guesses;
      }
    }
  }
}

TEST(VersionCount, OfASynchronousScheduleIsTwoIfForwardsComeAfterTheMerge) {
  for (const int64_t every : {2, 4, 7}) {
    for (int64_t depth = 1; depth < every; ++depth) {
      const Schedule schedule = schedule_of(PipelineSchedule::k1f1b, depth, every);
      for (int64_t position = 1; position < every; ++position) {
        const Boundaries boundaries = {.merge_position = position};
        Driven driven(schedule, middle_stage(), boundaries);
        driven.run(4, /*flush_every=*/1);
        EXPECT_EQ(version_count_max(schedule, middle_stage(), boundaries),
                  driven.stage().versions_peak())
            << "W " << depth << ", K " << every << ", a merge after " << position;
      }
    }
  }
}

TEST(VersionCount, IsOneIfEveryUpdateFlushes) {
  for (const PipelineSchedule order : {PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
    const Schedule schedule = schedule_of(order, 3, 4);
    Driven driven(schedule, middle_stage(), {});
    driven.run(4, /*flush_every=*/1);
    EXPECT_EQ(driven.stage().versions_peak(), 1);
    EXPECT_EQ(version_count_max(schedule, middle_stage(), {.guesses = 2}), 1);
  }
}

TEST(VersionCount, IsNotExceededAcrossFlushPoints) {
  StageOptions options = middle_stage();
  for (const double horizon : {0.0, 0.5}) {
    options.horizon = horizon;
    for (int64_t depth = 1; depth <= 6; ++depth) {
      for (int64_t every = 1; every <= 4; ++every) {
        const Schedule schedule = schedule_of(PipelineSchedule::kAsync, depth, every);
        Driven driven(schedule, options, {});
        driven.run(30, /*flush_every=*/5);
        EXPECT_LE(driven.stage().versions_peak(), version_count_max(schedule, options, {}))
            << "W " << depth << ", K " << every << ", horizon " << horizon;
      }
    }
  }
}

TEST(VersionCount, LastStageHasOne) {
  const PipelineShape shape = {.stages = 4, .update_every = 1, .extra_per_hop = 2};
  EXPECT_EQ(version_count_max(Schedule(shape, {3}), middle_stage(), {}), 1);
  EXPECT_EQ(version_count_max(Schedule(shape, {2}), middle_stage(), {}), 4);
}

TEST(MemoryPlan, HasTheBytesOfARealStage) {
  for (const auto& [rule, moments] : {std::pair(UpdateRule::kAdamW, MomentType::kF32),
                                      std::pair(UpdateRule::kAdamW, MomentType::kBf16),
                                      std::pair(UpdateRule::kSgd, MomentType::kF32)}) {
    const PipelineShape shape = {.stages = 3, .update_every = 2, .extra_per_hop = 1};
    StageOptions like = middle_stage();
    like.update.rule = rule;
    like.update.moments = moments;
    like.horizon = 0.5;
    const std::vector<StageOptions> stages = cut(3, like);
    const StageMemory plan =
        plan_memory(stages, shape, {.microbatch_tokens = 2, .run_microbatches = 100})[1];
    Driven driven(Schedule(shape, {1}), stages[1], {});
    driven.run(20, kNever);
    const Stage& stage = driven.stage();
    EXPECT_EQ(plan.parameters, stage.weights().numel());
    EXPECT_EQ(plan.weights, static_cast<double>(stage.weights().nbytes()));
    EXPECT_EQ(plan.gradients, static_cast<double>(stage.gradients().nbytes()));
    EXPECT_EQ(plan.optimizer, static_cast<double>(stage.optimizer().state_bytes()));
    EXPECT_EQ(plan.last_update, static_cast<double>(stage.last_update().nbytes()));
    EXPECT_EQ(plan.version_count, stage.versions_peak());
    EXPECT_EQ(plan.versions, static_cast<double>(stage.versions_peak()) * plan.weights);
    EXPECT_EQ(plan.in_flight, driven.in_flight_max());
  }
}

TEST(MemoryPlan, HasTheVersionsOfARealStageWithAStashOnTheHost) {
  for (const int64_t extra : {0, 1, 3}) {
    const PipelineShape shape = {.stages = 3, .update_every = 1, .extra_per_hop = extra};
    StageOptions like = middle_stage();
    like.stash_on = StashPlace::kHost;
    std::vector<StageOptions> stages = cut(3, like);
    const MemoryLoad load = {.microbatch_tokens = 2, .run_microbatches = 100};
    const StageMemory plan = plan_memory(stages, shape, load)[1];
    Driven driven(Schedule(shape, {1}), stages[1], {});
    driven.run(20, kNever);
    const Stage& stage = driven.stage();
    const auto bytes = static_cast<double>(stage.version_bytes());
    const auto on_host = static_cast<double>(stage.host_version_count());
    EXPECT_EQ(plan.version_count, stage.versions_peak());
    EXPECT_EQ(plan.versions, (static_cast<double>(stage.version_count()) + on_host) * bytes);
    EXPECT_EQ(plan.host, 0) << "all of it is the machine's";

    for (StageOptions& options : stages) options.device = at::kCUDA;
    const StageMemory gpu = plan_memory(stages, shape, load)[1];
    EXPECT_EQ(gpu.versions, 2 * bytes);
    double block = 1;  // of pinned memory
    while (block < bytes) block *= 2;
    EXPECT_EQ(gpu.host, on_host * block);
  }
}

}  // namespace
}  // namespace leeway
