#include "recipe/lane_options.h"

#include <algorithm>

#include "base/check.h"
#include "config/averaging_rules.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

// Of an automatic deadline. Shorter ones save nothing, because replicas do not wait for rounds.
constexpr double kShortestDeadlineMs = 1000;
// Updates between two comparisons of whole chunks of a common model, where nothing is evaluated.
constexpr int64_t kCheckEvery = 100;

CutOptions cut_options(const Recipe& recipe, StageId stage, int64_t parameters) {
  return {.seed = static_cast<uint64_t>(recipe.run.seed),
          .stage = stage,
          .parameters = parameters,
          .fraction = recipe.averaging.fraction,
          .granularity = recipe.averaging.granularity};
}

// Of what a replica sends in a round, averaged over a cycle.
int64_t contribution_bytes(const CutOptions& cut, WireFormat wire, at::ScalarType type) {
  return encoded_bytes(wire, cut.parameters / Cut(cut).parts(), type);
}

LanePlan usual_plan(const Recipe& recipe, Lane lane) {
  const AveragingOptions& averaging = recipe.averaging;
  LanePlan plan = {
      .lane = lane, .replicas = recipe.mesh.replicas, .update_every = recipe.pipeline.update_every};
  if (averaging.merge == MergePolicy::kFixedLag) {
    if (lane == Lane::kMain) {
      plan.lag_backwards = lag_backwards(recipe);
      LEEWAY_CHECK(plan.lag_backwards, "the recipe check refuses other lags");
    }
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
  const StabilityOptions options = stability_options(recipe, averaging.lag);
  return std::max(averaging.interval, stable_interval(options));
}

int64_t merge_position(const Recipe& recipe) {
  const AveragingMethod method = recipe.averaging.method;
  const bool gradients = method == AveragingMethod::kAllreduce;
  if (recipe.mesh.replicas == 1 || method == AveragingMethod::kNone || gradients) return 0;
  const LanePlan plan = usual_plan(recipe, Lane::kMain);
  return plan.lag_backwards ? *plan.lag_backwards % plan.update_every : Boundaries::kAnywhere;
}

std::vector<LaneOptions> lane_options(const Recipe& recipe, const StageOptions& stage, StageId id) {
  const AveragingOptions& averaging = recipe.averaging;
  if (recipe.mesh.replicas == 1 || averaging.method == AveragingMethod::kNone) return {};
  const int64_t parameters = stage_parameters(stage);
  const WireFormat wire = averaging.wire;
  const CutOptions cut = cut_options(recipe, id, parameters);
  const int64_t bytes = contribution_bytes(cut, wire, stage.master);
  LaneOptions main = {.lane = Lane::kMain,
                      .payload = RoundPayload::kWeights,
                      .cut = cut,
                      .chunks = chunk_count(recipe.mesh.replicas, bytes),
                      .wire = wire,
                      .merge = {.correction = averaging.correction,
                                .ema_start = averaging.ema_start,
                                .ema_end = averaging.ema_end,
                                .run_rounds = recipe.run.updates / round_interval(recipe),
                                .outer_rate = averaging.outer_rate,
                                .outer_momentum = averaging.outer_momentum},
                      .lowbit = {.wire = wire,
                                 .threshold = averaging.threshold,
                                 .smoothing = averaging.smoothing,
                                 .gain = averaging.gain,
                                 .gain_smoothing = averaging.gain_smoothing}};
  if (averaging.method == AveragingMethod::kAllreduce) main.payload = RoundPayload::kGradients;
  if (averaging.method == AveragingMethod::kLowbit) main.payload = RoundPayload::kSteps;
  return {main};
}

std::vector<std::string> averaging_buffer_names(const Recipe& recipe, int64_t vocabulary) {
  const StageOptions stage = stage_options(recipe, vocabulary, StagesFor::kPlan).front();
  return AveragingCompute::buffer_names(lane_options(recipe, stage, {0}));
}

std::vector<LanePlan> lane_plans(const Recipe& recipe, int64_t vocabulary) {
  const AveragingOptions& averaging = recipe.averaging;
  if (recipe.mesh.replicas == 1) return {};
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  std::vector<LanePlan> lanes;
  if (averaging.method != AveragingMethod::kNone) {
    LanePlan main = usual_plan(recipe, Lane::kMain);
    main.interval = round_interval(recipe);
    const auto limit = stability_limit(stability_options(recipe, 0));
    if (averaging.guard && !fixed && limit) {
      main.lag_limit = *limit * static_cast<double>(averaging.interval) / averaging.fraction;
    }
    main.gradients = averaging.method == AveragingMethod::kAllreduce;
    main.common = averaging.method == AveragingMethod::kLowbit;
    const int64_t every = recipe.run.evaluate_every > 0 ? recipe.run.evaluate_every : kCheckEvery;
    main.check_every = std::max<int64_t>(1, every / main.interval);
    lanes.push_back(main);
  }
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto options = lane_options(recipe, stages[s], {static_cast<int64_t>(s)});
    LEEWAY_CHECK(options.size() == lanes.size(), "every lane has a plan and arithmetic");
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].cycle = Cut(options[lane].cut).parts();
      lanes[lane].sizes.push_back({.cut = options[lane].cut,
                                   .wire = options[lane].wire,
                                   .type = stages[s].master,
                                   .chunks = options[lane].chunks,
                                   .threshold = options[lane].lowbit.threshold});
    }
  }
  return lanes;
}

LanePlan evaluation_lane(const Recipe& recipe, int64_t vocabulary) {
  LanePlan plan = usual_plan(recipe, Lane::kEvaluation);
  plan.final_round = recipe.run.updates;
  plan.of_common = recipe.mesh.replicas > 1 && recipe.averaging.method == AveragingMethod::kLowbit;
  if (recipe.mesh.replicas == 1) plan.deadline.reset();  // there is no other replica to wait for
  for (const StageOptions& stage : stage_options(recipe, vocabulary, StagesFor::kPlan)) {
    const CutOptions whole = {.parameters = stage_parameters(stage)};
    plan.sizes.push_back({.cut = whole, .wire = WireFormat::kF32, .type = stage.master});
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
