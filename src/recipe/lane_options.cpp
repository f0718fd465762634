#include "recipe/lane_options.h"

#include <algorithm>

#include "base/check.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

// The background rounds of `lowbit` move a twentieth of the weights at a time.
constexpr double kRepairFraction = 0.05;
// Of an automatic deadline. Shorter ones save nothing, because replicas do not wait for rounds.
constexpr double kShortestDeadlineMs = 1000;
constexpr uint64_t kRepairSeed = 0x7265;  // cuts differently from the main lane

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

LanePlan common_plan(const Recipe& recipe, Lane lane) {
  const AveragingOptions& averaging = recipe.averaging;
  LanePlan plan = {.lane = lane, .replicas = recipe.mesh.replicas};
  if (averaging.merge == MergePolicy::kFixedLag) {
    plan.lag = averaging.lag;
  } else {
    plan.deadline_follows = averaging.deadline_ms < 0;
    const double ms = plan.deadline_follows ? kShortestDeadlineMs : averaging.deadline_ms;
    plan.deadline = Nanos{static_cast<int64_t>(ms * 1e6)};
  }
  return plan;
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
  if (recipe.mesh.replicas == 1) return {};
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  std::vector<LanePlan> lanes;
  if (averaging.method != AveragingMethod::kNone) {
    LanePlan main = common_plan(recipe, Lane::kMain);
    main.interval = round_interval(recipe);
    const auto limit = stability_limit(stability_options(recipe, 0));
    if (averaging.guard && !fixed && limit) {
      main.lag_limit = *limit * static_cast<double>(averaging.interval) / averaging.fraction;
    }
    main.gradients = averaging.method == AveragingMethod::kAllreduce;
    main.needs_every = averaging.method == AveragingMethod::kLowbit;
    main.rotates = !main.needs_every;  // an owner's residual stays with its chunk
    lanes.push_back(main);
  }
  if (repairs(averaging)) {
    LanePlan repair = common_plan(recipe, Lane::kRepair);
    repair.interval = averaging.repair_every;
    lanes.push_back(repair);
  }
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto options = lane_options(recipe, stages[s], {static_cast<int64_t>(s)});
    LEEWAY_CHECK(options.size() == lanes.size(), "every lane has a plan and arithmetic");
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].cycle = Cut(options[lane].cut).parts();
      lanes[lane].sizes.push_back({options[lane].cut, options[lane].wire, stages[s].master});
    }
  }
  return lanes;
}

LanePlan evaluation_lane(const Recipe& recipe, int64_t vocabulary) {
  LanePlan plan = common_plan(recipe, Lane::kEvaluation);
  plan.lag.reset();
  plan.final_round = recipe.run.updates;
  if (recipe.mesh.replicas == 1) plan.deadline.reset();  // there is no other replica to wait for
  for (const StageOptions& stage : stage_options(recipe, vocabulary, StagesFor::kPlan)) {
    const CutOptions whole = {.parameters = stage_parameters(stage)};
    plan.sizes.push_back({whole, WireFormat::kF32, stage.master});
  }
  return plan;
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
