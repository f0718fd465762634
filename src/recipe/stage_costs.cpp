#include "recipe/stage_costs.h"

#include <algorithm>

#include "base/parameters.h"
#include "pipeline/schedule.h"
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

std::vector<sim::StageCosts> stage_costs(const Recipe& recipe, int64_t vocabulary, double flops,
                                         const std::vector<double>& speeds) {
  const ModelShape shape = stage_options(recipe, vocabulary, StagesFor::kPlan).front().shape;
  const int64_t tokens = microbatch_tokens(recipe);
  const std::vector<StageSlice> slices = cut_into_stages(shape, recipe.mesh.stages);
  std::vector<sim::StageCosts> costs =
      sim::model_costs(shape, recipe.mesh.stages,
                       {.flops_per_second = flops,
                        .speeds = speeds,
                        .microbatch_tokens = tokens,
                        .evaluation_tokens = tokens,
                        .recompute = recipe.pipeline.recompute,
                        .round_fraction = recipe.averaging.fraction});
  for (size_t s = 0; s < costs.size(); ++s) {
    const double speed = flops * (speeds.empty() ? 1 : speeds[s]);
    const double products = matrix_flops(recipe, slice_layout(shape, slices[s])) / speed * 1e9;
    const Nanos step = costs[s].update + Nanos::rounded(products);
    costs[s].update = step * steps_of(recipe, static_cast<int64_t>(s));
  }
  return costs;
}

}  // namespace

std::vector<sim::StageCosts> unit_costs(const Recipe& recipe, int64_t vocabulary) {
  return stage_costs(recipe, vocabulary, kTera, {});
}

std::vector<sim::StageCosts> sim_costs(const Recipe& recipe, int64_t vocabulary) {
  return stage_costs(recipe, vocabulary, recipe.sim.flops, recipe.sim.speeds);
}

}  // namespace leeway
