// Plans for the rounds of every averaging method, for runs without compute.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "swarm_testing.h"

namespace leeway::sim {

enum class Method { kNone, kSparse, kLowbit, kDiloco, kAllreduce };
inline constexpr int kMethods = 5;

struct RoundOptions {
  Method method = Method::kSparse;
  int64_t replicas = 2;
  int64_t cycle = 5;  // sparse: rounds until all coordinates have been exchanged
  std::optional<int64_t> lag_backwards = {};  // none: on arrival
  Nanos deadline = 20 * kMillisecond;
  bool follows = false;  // deadlines follow the time between updates
  double lag_limit = 0;  // guard
};

// Gives the plan its lanes.
inline void add_lanes(const RoundOptions& options, RunPlan& plan) {
  plan.replicas = options.replicas;
  plan.lanes.clear();
  plan.evaluation = {.lane = Lane::kEvaluation};
  if (options.replicas == 1) return;
  LanePlan common = {.replicas = options.replicas,
                     .update_every = plan.shape.update_every,
                     .lag_backwards = options.lag_backwards};
  if (!options.lag_backwards) {
    common.deadline = options.deadline;
    common.deadline_follows = options.follows;
  }
  common.sizes.assign(static_cast<size_t>(plan.shape.stages),
                      {.cut = {.parameters = 2000}, .chunks = chunk_count(options.replicas, 0)});
  LanePlan main = common;
  main.lag_limit = options.lag_backwards ? 0 : options.lag_limit;
  std::vector<LanePlan>& lanes = plan.lanes;
  switch (options.method) {
    case Method::kNone:
      break;
    case Method::kSparse:
      main.cycle = options.cycle;
      lanes.push_back(main);
      break;
    case Method::kLowbit:
      main.common = true;
      lanes.push_back(main);
      break;
    case Method::kDiloco:
      main.interval = 4;
      lanes.push_back(main);
      break;
    case Method::kAllreduce:
      main.gradients = true;
      main.lag_backwards = 0;
      main.deadline.reset();
      lanes.push_back(main);
      break;
  }
  plan.evaluation = common;
  plan.evaluation.lane = Lane::kEvaluation;
  plan.evaluation.lag_backwards.reset();
}

// Some of the evaluations are of own weights. It draws nothing, so that seeds keep their scenarios.
inline void mix_evaluations(RunPlan& plan) {
  if (!plan.lanes.empty()) plan.evaluation.interval = 1 + plan.lanes.front().cycle % 3;
}

// A few stages for this many updates, with evaluations and checkpoints or without.
inline RunPlan random_pipeline(Dice& dice, int64_t updates) {
  RunPlan plan =
      plan_of({.order = dice.one_in(3) ? PipelineSchedule::k1f1b : PipelineSchedule::kAsync,
               .stages = dice(1, 4),
               .update_every = dice(1, 3)},
              updates);
  plan.evaluate_every = dice.one_in(2) ? 0 : dice(3, 20);
  plan.evaluation_batches = dice.one_in(2) ? 0 : dice(1, 3);
  plan.checkpoint_every = dice.one_in(2) ? 0 : dice(5, 40);
  plan.activation_bytes = 1000;
  plan.evaluation_bytes = plan.activation_bytes;
  return plan;
}

// Random costs of one worker, scaled by `slowness`.
inline StageCosts random_costs(Dice& dice, int64_t slowness) {
  return {.forward = slowness * dice(100, 1000) * kMicrosecond,
          .backward = slowness * dice(100, 2000) * kMicrosecond,
          .update = slowness * dice(0, 300) * kMicrosecond,
          .save = dice(0, 100) * kMicrosecond,
          .evaluate = slowness * dice(0, 1000) * kMicrosecond,
          .rounds = RoundCosts::each(dice(0, 50) * kMicrosecond)};
}

}  // namespace leeway::sim
