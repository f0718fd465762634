#include "recipe/stage_costs.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/parameters.h"
#include "pipeline/schedule.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

constexpr double kTera = 1e12;

// Matrix products of Muon's step, besides its elementwise work. For an m by n matrix (m <= n, or
// transposed): X X', its square and their product with X, five times.
double matrix_flops(const Recipe& recipe, const ParameterLayout& layout) {
  constexpr double kIterations = 5;
  if (recipe.optimizer.name != UpdateRule::kMuon) return 0;
  double flops = 0;
  for (const Parameter& parameter : layout) {
    if (parameter.kind != ParameterKind::kMatrix) continue;
    const auto m = static_cast<double>(std::min(parameter.rows, parameter.cols));
    const auto n = static_cast<double>(std::max(parameter.rows, parameter.cols));
    flops += kIterations * 2 * m * m * (2 * n + m);
  }
  return flops;
}

// Steps a stage takes per update: one, plus one for every guess of its late forwards.
int64_t steps_of(const Recipe& recipe, int64_t stage) {
  if (recipe.pipeline.lookahead != Lookahead::kTentative) return 1;
  const Schedule schedule(pipeline_shape(recipe), StageId{stage});
  if (schedule.delay_max() == 0) return 1;
  return 1 + std::min(recipe.pipeline.refresh, schedule.warmup());
}

// Operations per value that a piece of work touches. As in an optimizer's step, most of the time
// goes to memory; these are times of one core relative to AdamW's step, with its 20 operations.
struct ValueFlops {
  double contribute = 0;  // gather and encode; an owner's answer costs as much
  double part = 0;        // decode what one replica has sent, check it and add it up
  double merge = 0;
};

ValueFlops value_flops(RoundPayload payload) {
  switch (payload) {
    case RoundPayload::kWeights:
      return {.contribute = 14, .part = 10, .merge = 90};
    case RoundPayload::kGradients:
      return {.contribute = 6, .part = 11, .merge = 6};
    case RoundPayload::kSteps:
      return {.contribute = 60, .part = 75, .merge = 40};
  }
  LEEWAY_UNREACHABLE("all payloads are above");
}

sim::RoundCosts round_costs(const ValueFlops& flops, double values, int64_t chunks, double speed) {
  const double chunk = values / static_cast<double>(chunks);
  const auto time_of = [&](double all) {
    return std::max(Nanos{1}, Nanos::rounded(all / speed * 1e9));
  };
  return {.contribute = time_of(flops.contribute * values),
          .part = time_of(flops.part * chunk),
          .answer = time_of(flops.contribute * chunk),
          .merge = time_of(flops.merge * chunk)};
}

void add_rounds(const Recipe& recipe, const StageOptions& stage, StageId id, double speed,
                sim::StageCosts& costs) {
  const auto parameters = static_cast<double>(stage_parameters(stage));
  // Copies are sent as they are, like gradients.
  costs.copies = round_costs(value_flops(RoundPayload::kGradients), parameters, 1, speed);
  for (const LaneOptions& lane : lane_options(recipe, stage, id)) {
    const double values = parameters / static_cast<double>(Cut(lane.cut).parts());
    costs.rounds = round_costs(value_flops(lane.payload), values, lane.chunks, speed);
  }
}

std::vector<sim::StageCosts> stage_costs(const Recipe& recipe, int64_t vocabulary, double flops,
                                         const std::vector<double>& speeds) {
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  const ModelShape shape = stages.front().shape;
  const int64_t tokens = microbatch_tokens(recipe);
  const std::vector<StageSlice> slices = cut_into_stages(shape, recipe.mesh.stages);
  std::vector<sim::StageCosts> costs = sim::model_costs(shape, recipe.mesh.stages,
                                                        {.flops_per_second = flops,
                                                         .speeds = speeds,
                                                         .microbatch_tokens = tokens,
                                                         .evaluation_tokens = tokens,
                                                         .recompute = recipe.pipeline.recompute});
  for (size_t s = 0; s < costs.size(); ++s) {
    const double speed = flops * (speeds.empty() ? 1 : speeds[s]);
    const double products = matrix_flops(recipe, slice_layout(shape, slices[s])) / speed * 1e9;
    const Nanos step = costs[s].update + Nanos::rounded(products);
    costs[s].update = step * steps_of(recipe, static_cast<int64_t>(s));
    add_rounds(recipe, stages[s], {static_cast<int64_t>(s)}, speed, costs[s]);
  }
  return costs;
}

}  // namespace

std::vector<sim::StageCosts> unit_costs(const Recipe& recipe, int64_t vocabulary) {
  return stage_costs(recipe, vocabulary, kTera, {});
}

std::vector<sim::StageCosts> sim_costs(const Recipe& recipe, int64_t vocabulary) {
  const std::vector<double>& speeds = recipe.sim.speeds;
  if (speeds.empty()) return stage_costs(recipe, vocabulary, recipe.sim.flops, speeds);
  std::vector<sim::StageCosts> costs;
  for (auto first = speeds.begin(); first != speeds.end(); first += recipe.mesh.stages) {
    const std::vector<double> replica(first, first + recipe.mesh.stages);
    std::ranges::copy(stage_costs(recipe, vocabulary, recipe.sim.flops, replica),
                      std::back_inserter(costs));
  }
  return costs;
}

}  // namespace leeway
