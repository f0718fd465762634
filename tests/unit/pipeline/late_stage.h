// A tiny model as one stage that is as late as the first of a deep pipeline.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/stage.h"
#include "token_batches.h"

namespace leeway {

inline ModelShape tiny() {
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

inline StageOptions tiny_options() {
  StageOptions options;
  options.shape = tiny();
  options.slice = whole_model(tiny());
  options.update.rule = UpdateRule::kAdamW;
  options.update.rate = 0.02;
  options.seed = 3;
  return options;
}

// The first of two stages: it runs ahead by any depth.
inline Schedule schedule_of(int64_t depth, int64_t update_every,
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
        stage.forward_to_head(m, ahead, tokens(m.value), tokens(m.value + 1));
      } else {
        losses.push_back(stage.backward_from_loss({at_.backwards++}).loss.item<double>());
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

inline void expect_same(const Late& here, const Late& there) {
  EXPECT_EQ(here.losses, there.losses);
  EXPECT_TRUE(at::equal(here.stage.weights(), there.stage.weights()));
  EXPECT_TRUE(at::equal(here.stage.gradients(), there.stage.gradients()));
}

// What a late stage does with its versions.
struct LateCase {
  double horizon = 0;
  int64_t guesses = 0;
  bool recompute = false;
  at::ScalarType compute = at::kFloat;

  StageOptions options() const {
    StageOptions all = tiny_options();
    all.horizon = horizon;
    all.recompute = recompute;
    all.compute = compute;
    return all;
  }
};
inline constexpr LateCase kLateCases[] = {{},
                                          {.horizon = 0.5},
                                          {.guesses = 1},
                                          {.guesses = 3},
                                          {.recompute = true},
                                          {.horizon = 0.5, .recompute = true},
                                          {.guesses = 2, .recompute = true},
                                          {.horizon = 0.5, .compute = at::kBFloat16}};

}  // namespace leeway
