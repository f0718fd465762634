#include "drivers/sim/cost.h"

#include <algorithm>

#include "base/check.h"

namespace leeway::sim {
namespace {

constexpr double kBytesPerParameter = 12;  // in a checkpoint: weight and two moments, fp32
// A step reads four values per parameter and spends about this many operations on them. The caller
// adds what an optimizer does with whole matrices.
constexpr double kUpdateFlopsPerParameter = 20;

Nanos at_least_one(double nanos) {
  LEEWAY_CHECK(nanos >= 0, "nothing ends before it begins");
  return std::max(Nanos{1}, Nanos::rounded(nanos));
}

Nanos scaled(Nanos cost, double speed) {
  if (cost.count == 0 || cost == Nanos::max()) return cost;
  return at_least_one(static_cast<double>(cost.count) / speed);
}

RoundCosts scaled(const RoundCosts& costs, double speed) {
  return {.contribute = scaled(costs.contribute, speed),
          .part = scaled(costs.part, speed),
          .answer = scaled(costs.answer, speed),
          .merge = scaled(costs.merge, speed)};
}

}  // namespace

// Whoever only says where it is touches no values; nor does an owner with nothing to add up.
Nanos RoundCosts::of(const Work& work) const {
  switch (work.kind) {
    case WorkKind::kContribute:
      return work.replicas.empty() ? Nanos{0} : contribute;
    case WorkKind::kReduce: {
      const int64_t parts = std::max(work.replicas.size(), std::ssize(work.parts));
      return parts == 0 ? Nanos{0} : answer + part * parts;
    }
    case WorkKind::kMerge:
      return merge;
    default:
      return {0};
  }
}

Nanos StageCosts::of(const Work& work) const {
  switch (work.kind) {
    case WorkKind::kForward:
      return forward;
    case WorkKind::kBackward:
      return backward;
    case WorkKind::kUpdate:
      return update;
    case WorkKind::kSave:
      return save;
    case WorkKind::kEvaluate:
      return evaluate;
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
      return (work.lane == Lane::kEvaluation ? copies : rounds).of(work);
    case WorkKind::kTransfer:
      return rounds.contribute;  // a part of a state is about as large
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
    case WorkKind::kAdopt:
    case WorkKind::kReport:
      return {0};
  }
  LEEWAY_UNREACHABLE("all kinds of work are above");
}

StageCosts at_speed(const StageCosts& costs, double speed) {
  LEEWAY_CHECK(speed > 0, "a worker's speed is positive");
  return {.forward = scaled(costs.forward, speed),
          .backward = scaled(costs.backward, speed),
          .update = scaled(costs.update, speed),
          .save = scaled(costs.save, speed),
          .evaluate = scaled(costs.evaluate, speed),
          .rounds = scaled(costs.rounds, speed),
          .copies = scaled(costs.copies, speed)};
}

std::vector<StageCosts> model_costs(const ModelShape& shape, int64_t stages,
                                    const CostOptions& options) {
  LEEWAY_CHECK(options.flops_per_second > 0, "the recipe check requires a positive rate");
  LEEWAY_CHECK(options.speeds.empty() || std::ssize(options.speeds) == stages,
               "one speed for each stage");
  const auto time_of = [&](double flops) {
    return at_least_one(flops / options.flops_per_second * kNanosPerSecond);
  };
  std::vector<StageCosts> all;
  for (const StageSlice& slice : cut_into_stages(shape, stages)) {
    const double token_flops = 2 * slice_cost(shape, slice);
    const double forward = token_flops * static_cast<double>(options.microbatch_tokens);
    const double parameters = static_cast<double>(parameter_count(slice_layout(shape, slice)));
    const double saved_bytes = parameters * kBytesPerParameter;
    const bool only_later = options.recompute && slice.heads;  // its backward makes all of it
    StageCosts costs = {
        .forward = time_of(only_later ? 0 : forward),
        .backward = time_of((options.recompute ? 3 : 2) * forward),
        .update = time_of(parameters * kUpdateFlopsPerParameter),
        .save = {0},
        .evaluate = time_of(token_flops * static_cast<double>(options.evaluation_tokens))};
    const double speed = options.speeds.empty() ? 1.0 : options.speeds[all.size()];
    costs = at_speed(costs, speed);
    // A faster worker does not have a faster disk.
    if (options.save_bytes_per_second > 0) {
      costs.save = at_least_one(saved_bytes / options.save_bytes_per_second * kNanosPerSecond);
    }
    all.push_back(costs);
  }
  return all;
}

}  // namespace leeway::sim
