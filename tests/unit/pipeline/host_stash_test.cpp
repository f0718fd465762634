// A stash in host memory beside one on the device: the same bits, and the copies that are promised.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pipeline/memory_plan.h"
#include "pipeline/stage.h"
#include "token_batches.h"

namespace leeway {
namespace {

ModelShape tiny() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 1,
          .width = 8,
          .heads = 2,
          .kv_heads = 1,
          .hidden = 12,
          .context = 5,
          .vocabulary = 11};
}

StageOptions options_of(StashPlace place) {
  StageOptions options;
  options.shape = tiny();
  options.slice = whole_model(tiny());
  options.update.rule = UpdateRule::kAdamW;
  options.update.rate = 0.02;
  options.seed = 3;
  options.stash_on = place;
  return options;
}

// The first of two stages: it runs ahead by any depth.
Schedule schedule_of(int64_t depth, int64_t update_every,
                     PipelineSchedule order = PipelineSchedule::kAsync) {
  return Schedule(
      {.order = order, .stages = 2, .update_every = update_every, .extra_per_hop = depth - 1}, {0});
}

// A whole model that is as late as that stage.
class Late {
 public:
  Late(const Schedule& schedule, const StageOptions& options, int64_t guesses = 0)
      : stage(options), schedule_(schedule), horizon_(options.horizon), guesses_(guesses) {
    at::set_num_threads(1);  // these tensors are tiny: a second thread only waits
  }

  // The pipeline is left as it is after this many updates, with microbatches in flight.
  void run(int64_t updates, bool flushes = false) {
    while (at_.updates < updates) {
      if (schedule_.update_due(at_)) {
        stage.update(1, 1);
        ++at_.updates;
      } else if (schedule_.wants_forward(at_, {flushes ? at_.updates + 1 : 1'000'000})) {
        const MicrobatchId m = {at_.forwards++};
        const Ahead ahead = look_ahead(schedule_.delay(m, {at_.updates}));
        losses.push_back(
            stage.forward_to_loss(m, ahead, tokens(m.value), tokens(m.value + 1)).item<double>());
      } else {
        stage.backward_from_loss({at_.backwards++});
      }
    }
  }

  // What was in flight is lost, and comes again.
  void restart() {
    stage.restart(at_.updates);
    at_.backwards = at_.forwards = at_.updates * schedule_.update_every();
  }

  std::vector<double> losses;
  Stage stage;

 private:
  Ahead look_ahead(int64_t delay) {
    if (delay == 0) return {};
    if (guesses_ == 0) return {.delay = delay, .guess = horizon_ > 0 ? delay : 0};
    const int64_t every = schedule_.update_every();
    const int64_t late = at_.backwards % every - (every - schedule_.warmup());
    const int64_t guess = 1 + late * std::min(guesses_, schedule_.warmup()) / schedule_.warmup();
    if (!stage.has_guess(guess)) stage.make_guess(guess, 1, 1);
    return {.delay = delay, .guess = guess};
  }

  Schedule schedule_;
  double horizon_;
  int64_t guesses_;
  Counts at_;
};

void expect_same(const Late& here, const Late& there) {
  EXPECT_EQ(here.losses, there.losses);
  EXPECT_TRUE(at::equal(here.stage.weights(), there.stage.weights()));
  EXPECT_TRUE(at::equal(here.stage.gradients(), there.stage.gradients()));
}

struct Case {
  double horizon = 0;
  int64_t guesses = 0;
  bool recompute = false;
  at::ScalarType compute = at::kFloat;

  StageOptions options(StashPlace place) const {
    StageOptions all = options_of(place);
    all.horizon = horizon;
    all.recompute = recompute;
    all.compute = compute;
    return all;
  }
};
constexpr Case kCases[] = {{},
                           {.horizon = 0.5},
                           {.guesses = 1},
                           {.guesses = 3},
                           {.recompute = true},
                           {.horizon = 0.5, .recompute = true},
                           {.guesses = 2, .recompute = true},
                           {.horizon = 0.5, .compute = at::kBFloat16}};

class HostStash : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(LookAheads, HostStash, testing::ValuesIn(kCases));

TEST_P(HostStash, GivesTheSameBitsWithTwoVersionsOnTheDevice) {
  const Case& with = GetParam();
  for (const int64_t depth : {1, 2, 5, 8}) {
    for (const int64_t every : {1, 2, 3, 6, 9}) {
      if (with.guesses > 0 && every <= depth) continue;  // no gradient to guess from
      SCOPED_TRACE(testing::Message() << "W " << depth << ", K " << every);
      const Schedule schedule = schedule_of(depth, every);
      Late here(schedule, with.options(StashPlace::kHost), with.guesses);
      Late there(schedule, with.options(StashPlace::kDevice), with.guesses);
      const int64_t updates = 5 + 2 * schedule.delay_max();
      for (Late* late : {&here, &there}) late->run(updates);
      expect_same(here, there);

      const int64_t all =
          version_count_max(schedule, with.options(StashPlace::kHost), with.guesses);
      EXPECT_EQ(here.stage.versions_peak(), all);
      EXPECT_EQ(here.stage.version_count(), std::min<int64_t>(all, 2));
      EXPECT_EQ(here.stage.host_version_count(), std::max<int64_t>(all - 2, 0));
      EXPECT_EQ(there.stage.host_version_count(), 0);
    }
  }
}

TEST_P(HostStash, ARestartFreesWhatWaits) {
  const Case& with = GetParam();
  const Schedule schedule = schedule_of(/*depth=*/5, /*update_every=*/6);
  Late here(schedule, with.options(StashPlace::kHost), with.guesses);
  Late there(schedule, with.options(StashPlace::kDevice), with.guesses);
  for (Late* late : {&here, &there}) late->run(6);
  const int64_t waiting = here.stage.host_version_count();
  for (Late* late : {&here, &there}) {
    ASSERT_GT(late->stage.in_flight_count(), 0);
    late->restart();
    late->run(12);
  }
  expect_same(here, there);
  EXPECT_EQ(here.stage.version_count(), 2);
  EXPECT_EQ(here.stage.host_version_count(), waiting) << "the same buffers again";
}

TEST(HostStashAlone, MovesNothingIfEveryUpdateFlushes) {
  for (const PipelineSchedule order : {PipelineSchedule::k1f1b, PipelineSchedule::kGpipe}) {
    Late late(schedule_of(3, 4, order), options_of(StashPlace::kHost));
    late.run(4, /*flushes=*/true);
    EXPECT_EQ(late.stage.version_count(), 1);
    EXPECT_EQ(late.stage.host_version_count(), 0);
  }
}

TEST(HostStashAlone, LeavesTheCopiesOfAnEvaluationAlone) {
  Late late(schedule_of(4, 1), options_of(StashPlace::kHost));
  late.run(6);
  const at::Tensor weights = late.stage.weights().clone();
  const auto held = late.stage.hold_copy(weights);
  late.run(12);
  EXPECT_TRUE(at::equal(held->views.flat, weights));
  EXPECT_EQ(late.stage.version_count(), 3) << "and those of forwards and of the next backward";
}

// A merge may come when forwards have used the newest weights.
TEST(HostStashAlone, AWrittenCopyIsNotThatOfAForward) {
  Late here(schedule_of(4, 1), options_of(StashPlace::kHost));
  Late there(schedule_of(4, 1), options_of(StashPlace::kDevice));
  for (Late* late : {&here, &there}) {
    late->run(6);
    late->stage.forward_to_loss({100}, {}, tokens(100), tokens(101));
    const at::Tensor copy = late->stage.writable_copy();
    copy.mul_(0.5);
    late->stage.weights().mul_(0.5);
    late->run(8);
  }
  expect_same(here, there);
  EXPECT_EQ(here.stage.version_count(), 2);
}

TEST(HostStashDeath, BackwardsComeInOrder) {
  Late late(schedule_of(4, 1), options_of(StashPlace::kHost));
  late.run(6);  // microbatches 6 to 9 are in flight, each with a version of its own
  EXPECT_DEATH(late.stage.backward_from_loss({8}), "backwards come in the order of forwards");
}

}  // namespace
}  // namespace leeway
