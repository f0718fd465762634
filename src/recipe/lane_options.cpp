#include "recipe/lane_options.h"

#include <algorithm>

#include "base/check.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

// The background rounds of `lowbit` move a twentieth of the weights at a time.
constexpr double kRepairFraction = 0.05;
constexpr uint64_t kRepairSeed = 0x7265;  // another cut than the main lane's

bool repairs(const AveragingOptions& averaging) {
  return averaging.method == AveragingMethod::kLowbit && averaging.repair_every > 0;
}

CutOptions cut_options(const Recipe& recipe, Lane lane, StageId stage, int64_t parameters) {
  const auto seed = static_cast<uint64_t>(recipe.run.seed);
  const bool repair = lane == Lane::kRepair;
  return {.seed = repair ? seed ^ kRepairSeed : seed,
          .stage = stage,
          .parameters = parameters,
          .fraction = repair ? kRepairFraction : recipe.averaging.fraction,
          .granularity = recipe.averaging.granularity};
}

}  // namespace

int64_t stage_parameters(const StageOptions& stage) {
  return parameter_count(slice_layout(stage.shape, stage.slice));
}

int64_t round_interval(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  if (!averaging.guard || averaging.merge != MergePolicy::kFixedLag) return averaging.interval;
  const StabilityOptions options = stability_options(recipe, static_cast<double>(averaging.lag));
  return std::max(averaging.interval, stable_interval(options));
}

std::vector<LaneOptions> lane_options(const Recipe& recipe, const StageOptions& stage, StageId id) {
  const AveragingOptions& averaging = recipe.averaging;
  if (recipe.mesh.replicas == 1 || averaging.method == AveragingMethod::kNone) return {};
  const int64_t parameters = stage_parameters(stage);
  const int64_t chunks = LanePlan{.replicas = recipe.mesh.replicas}.chunks();
  const WireFormat wire = averaging.wire;
  LaneOptions main = {.lane = Lane::kMain,
                      .payload = RoundPayload::kWeights,
                      .cut = cut_options(recipe, Lane::kMain, id, parameters),
                      .chunks = chunks,
                      .wire = wire,
                      .merge = {.correction = averaging.correction,
                                .ema_start = averaging.ema_start,
                                .ema_end = averaging.ema_end,
                                .run_rounds = recipe.run.updates / round_interval(recipe),
                                .outer_rate = averaging.outer_rate,
                                .outer_momentum = averaging.outer_momentum},
                      .lowbit = {.wire = wire,
                                 .smoothing = averaging.smoothing,
                                 .gain = averaging.gain,
                                 .gain_smoothing = averaging.gain_smoothing}};
  if (averaging.method == AveragingMethod::kAllreduce) main.payload = RoundPayload::kGradients;
  if (averaging.method == AveragingMethod::kLowbit) main.payload = RoundPayload::kSteps;
  std::vector<LaneOptions> lanes = {main};
  if (repairs(averaging)) {
    lanes.push_back({.lane = Lane::kRepair,
                     .payload = RoundPayload::kWeights,
                     .cut = cut_options(recipe, Lane::kRepair, id, parameters),
                     .chunks = chunks,
                     .wire = WireFormat::kF32,
                     .merge = {.correction = Correction::kDelta},
                     .lowbit = {}});
  }
  return lanes;
}

std::vector<LanePlan> lane_plans(const Recipe& recipe, int64_t vocabulary) {
  const AveragingOptions& averaging = recipe.averaging;
  const int64_t replicas = recipe.mesh.replicas;
  if (replicas == 1) return {};
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  LanePlan common = {.replicas = replicas};
  if (fixed) common.lag = averaging.lag;
  if (!fixed) common.deadline = Nanos{static_cast<int64_t>(averaging.deadline_ms * 1e6)};
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary);
  const auto with_sizes = [&](LanePlan plan) {
    for (size_t s = 0; s < stages.size(); ++s) {
      for (const LaneOptions& numbers :
           lane_options(recipe, stages[s], {static_cast<int64_t>(s)})) {
        if (numbers.lane != plan.lane) continue;
        plan.cycle = Cut(numbers.cut).parts();
        plan.sizes.push_back({numbers.cut, numbers.wire, stages[s].master});
      }
      if (plan.lane == Lane::kEvaluation) {
        const CutOptions whole = {.parameters = stage_parameters(stages[s])};
        plan.sizes.push_back({whole, WireFormat::kF32, stages[s].master});
      }
    }
    return plan;
  };
  std::vector<LanePlan> lanes;
  if (averaging.method != AveragingMethod::kNone) {
    LanePlan main = common;
    main.interval = round_interval(recipe);
    const auto limit = stability_limit(stability_options(recipe, 0));
    if (averaging.guard && !fixed && limit) {
      main.lag_limit = *limit * static_cast<double>(averaging.interval) / averaging.fraction;
    }
    main.gradients = averaging.method == AveragingMethod::kAllreduce;
    main.needs_every = averaging.method == AveragingMethod::kLowbit;
    main.rotates = !main.needs_every;  // what an owner could not say yet stays with its chunk
    lanes.push_back(with_sizes(main));
  }
  if (repairs(averaging)) {
    LanePlan repair = common;
    repair.lane = Lane::kRepair;
    repair.interval = averaging.repair_every;
    lanes.push_back(with_sizes(repair));
  }
  LanePlan evaluation = common;
  evaluation.lane = Lane::kEvaluation;
  evaluation.lag.reset();
  lanes.push_back(with_sizes(evaluation));
  return lanes;
}

StabilityOptions stability_options(const Recipe& recipe, double lag) {
  const AveragingOptions& averaging = recipe.averaging;
  return {.lag = lag,
          .fraction = averaging.fraction,
          .interval = averaging.interval,
          .correction = averaging.correction,
          .ema_start = averaging.ema_start};
}

double allreduce_bytes(int64_t parameters, int64_t replicas, int64_t updates) {
  return 2.0 * static_cast<double>(replicas - 1) * static_cast<double>(parameters) * sizeof(float) *
         static_cast<double>(updates);
}

}  // namespace leeway
