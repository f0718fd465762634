#include "pipeline/depth_plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace leeway {
namespace {

double nanos(Nanos time) { return static_cast<double>(time.count); }

double work_of(const StageTimes& stage) { return nanos(stage.forward) + nanos(stage.backward); }

double slot_of(const StageTimes& stage, int64_t update_every) {
  return work_of(stage) + nanos(stage.update) / static_cast<double>(update_every);
}

double way_of(const HopTimes& hop) { return nanos(hop.latency) + nanos(hop.transfer); }

double slowest_slot(const PipelineTimes& times, int64_t update_every) {
  double slowest = 0;
  for (const StageTimes& stage : times.stages)
    slowest = std::max(slowest, slot_of(stage, update_every));
  return slowest;
}

// Calls function(hops, loop) for every i < j: the hops between them, and the time around the loop.
template <class Function>
void for_each_loop(const PipelineTimes& times, int64_t update_every, const Function& function) {
  const double way = way_of(times.hop);
  for (size_t i = 0; i < times.stages.size(); ++i) {
    double loop = slot_of(times.stages[i], update_every);
    for (size_t j = i + 1; j < times.stages.size(); ++j) {
      loop += slot_of(times.stages[j], update_every) + 2 * way;
      function(static_cast<double>(j - i), loop);
    }
  }
}

double asynchronous_busy(const PipelineShape& shape, const PipelineTimes& times) {
  const double slot = slowest_slot(times, shape.update_every);
  double period = std::max(slot, nanos(times.hop.transfer));
  const auto per_hop = static_cast<double>(1 + shape.extra_per_hop);
  for_each_loop(times, shape.update_every, [&](double hops, double loop) {
    period = std::max(period, loop / (hops * per_hop + 1));
  });
  return slot / period;
}

// The most hops that a chain of dependencies can go back and forth within one update of 1f1b: every
// turn of h hops, up and down again, uses up h (1 + extra) + 1 of the K-1 microbatches after the
// first. Each hop costs 2L and saves the slots of `extra` microbatches.
int64_t hops_within_update(const PipelineShape& shape) {
  const int64_t per_hop = 1 + shape.extra_per_hop;
  const int64_t hops_max = shape.stages - 1;
  const int64_t turn = hops_max * per_hop + 1;
  const int64_t rest = (shape.update_every - 1) % turn;
  const int64_t turns = (shape.update_every - 1) / turn;
  return turns * hops_max + (rest == 0 ? 0 : (rest - 1) / per_hop);
}

// From the first forward of stage 0 to its last backward: one microbatch goes up and down, the
// others follow.
double synchronous_span(const PipelineShape& shape, const PipelineTimes& times) {
  const double way = way_of(times.hop);
  const double transfer = nanos(times.hop.transfer);
  const auto others = static_cast<double>(shape.update_every - 1);
  double span = 2 * way * static_cast<double>(shape.stages - 1);
  double forward = transfer;
  double backward = transfer;
  double slot = transfer;
  for (const StageTimes& stage : times.stages) {
    span += work_of(stage);
    forward = std::max(forward, nanos(stage.forward));
    backward = std::max(backward, nanos(stage.backward));
    slot = std::max(slot, work_of(stage));
  }
  if (shape.order == PipelineSchedule::kGpipe) return span + others * (forward + backward);
  const double cost = std::max(0.0, 2 * way - static_cast<double>(shape.extra_per_hop) * slot);
  return span + others * slot + static_cast<double>(hops_within_update(shape)) * cost;
}

double synchronous_busy(const PipelineShape& shape, const PipelineTimes& times) {
  double work = 0;
  double update = 0;
  for (const StageTimes& stage : times.stages) {
    work = std::max(work, work_of(stage));
    update = std::max(update, nanos(stage.update));
  }
  const double busy = static_cast<double>(shape.update_every) * work + update;
  return busy / (synchronous_span(shape, times) + update);
}

}  // namespace

DepthPlan plan_depth(const PipelineTimes& times, int64_t update_every) {
  LEEWAY_CHECK(!times.stages.empty() && update_every > 0, "a pipeline has stages and microbatches");
  const double slot = slowest_slot(times, update_every);
  const double transfer = nanos(times.hop.transfer);
  const double period = std::max({slot, transfer, 1.0});  // at least 1 ns
  double extra = 0;
  for_each_loop(times, update_every, [&](double hops, double loop) {
    extra = std::max(extra, (loop - period) / (hops * period) - 1);
  });
  constexpr double kRounding = 1e-9;  // 3.0000000000000004 is 3
  return {.slot = Nanos::rounded(slot),
          .extra_per_hop = static_cast<int64_t>(std::ceil(extra - kRounding)),
          .link_bound = times.stages.size() > 1 && transfer > slot};
}

double busy_share(const PipelineShape& shape, const PipelineTimes& times) {
  LEEWAY_CHECK(std::ssize(times.stages) == shape.stages, "times for every stage");
  if (slowest_slot(times, shape.update_every) == 0) return 0;
  if (shape.stages == 1) return 1;  // never waits
  return shape.synchronous() ? synchronous_busy(shape, times) : asynchronous_busy(shape, times);
}

}  // namespace leeway
