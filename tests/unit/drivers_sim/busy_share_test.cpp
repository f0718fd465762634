// Compares how busy the stages are with values worked out by hand. T = f + b: one microbatch on one
// stage.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "pipeline/depth_plan.h"
#include "sim_testing.h"

namespace leeway::sim {
namespace {

struct Pace {
  int64_t forward_us = 0;
  int64_t backward_us = 0;
  int64_t update_us = 0;
  StageCosts costs() const {
    return {.forward = forward_us * kMicrosecond,
            .backward = backward_us * kMicrosecond,
            .update = update_us * kMicrosecond};
  }
};
constexpr Pace kPaces[] = {{1000, 1000, 0}, {1000, 2000, 0}, {1000, 1000, 20}, {1000, 2000, 100}};

TEST(BusyShare, AsyncStagesAreAlwaysBusy) {
  for (const int64_t stages : {4, 8}) {
    for (const int64_t update_every : {int64_t{1}, stages}) {
      for (const Pace& pace : kPaces) {
        const RunPlan plan = plan_of({.stages = stages, .update_every = update_every},
                                     /*updates=*/400 / update_every);
        Finished run(plan, {.costs = equal_costs(stages, pace.costs())});
        for (int64_t s = 0; s < stages; ++s) {
          EXPECT_GE(run.steady_share(s), 0.99)
              << "P " << stages << ", K " << update_every << ", f " << pace.forward_us << ", b "
              << pace.backward_us << ", update " << pace.update_us << ", stage " << s;
        }
      }
    }
  }
}

// An update of a flushing pipeline takes K T on a stage, plus (P-1) T until the first microbatch
// has passed all other stages and returned: a stage is idle for exactly (P-1)/(K+P-1) of the time.
TEST(BusyShare, FlushesCostWhatTheFormulaSays) {
  for (const PipelineSchedule order : {PipelineSchedule::kGpipe, PipelineSchedule::k1f1b}) {
    for (const int64_t stages : {1, 2, 4, 8}) {
      for (const int64_t update_every : {1, 4, 8, 13}) {
        for (const Pace& pace : {kPaces[0], kPaces[1]}) {
          const RunPlan plan =
              plan_of({.order = order, .stages = stages, .update_every = update_every}, 5);
          Finished run(plan, {.costs = equal_costs(stages, pace.costs())});
          const int64_t slots = update_every + stages - 1;
          const int64_t span = run.simulation.span().length().count;
          for (int64_t s = 0; s < stages; ++s) {
            const int64_t idle = span - run.simulation.busy(stage(s)).total().count;
            EXPECT_EQ(idle * slots, span * (stages - 1))
                << "P " << stages << ", K " << update_every << ", stage " << s;
          }
        }
      }
    }
  }
}

// 1f1b with a latency of L on every hop. Count from the moment the last stage begins microbatch 0
// of an update, and let c(m) be when it begins m. A stage d-1 hops before it keeps d microbatches
// in flight: its forward of m waits for its backward of m-d, whose gradient comes back over d-1
// hops; then the forward travels d-1 hops to the last stage. So, for all d up to P,
//   c(m) >= c(m-d) + d T + 2 L (d-1),
// and nothing else delays a microbatch. Within the first P the longest wait is d = m:
//   c(m) = m T + 2 L (m-1) for 0 < m < P;
// from then on it is d = P, stage 0: every P microbatches cost P T + 2 L (P-1). For K = g P
//   c(K-1) = (K-1) T + 2 L (g (P-1) - 1),
// and with T for the last microbatch and (P-1)(T + 2L) for the way there and back an update takes
//   (K + P - 1) T + 2 L ((g+1)(P-1) - 1), in which a stage works for K T.
// Norms travel while stage 0 does its last backward and its next forward: they cost nothing.
double flushed_share(int64_t stages, int64_t groups, double latency_over_t) {
  const auto hops = static_cast<double>(stages - 1);
  const auto work = static_cast<double>(groups * stages);
  const double waits = static_cast<double>(groups + 1) * hops - 1;
  return work / (work + hops + 2 * latency_over_t * waits);
}

TEST(BusyShare, LatencyCostsTheFlushingPipelineWhatTheFormulaSays) {
  for (const Pace& pace : {kPaces[0], kPaces[1]}) {
    const auto period = static_cast<double>((pace.costs().forward + pace.costs().backward).count);
    for (const int64_t stages : {2, 4, 8}) {
      for (const int64_t groups : {1, 2, 4}) {
        for (const double ratio : {0.25, 1.0, 3.0}) {
          const LinkOptions link = {.latency = {static_cast<int64_t>(ratio * period)}};
          const RunPlan plan = plan_of(
              {.order = PipelineSchedule::k1f1b, .stages = stages, .update_every = groups * stages},
              20);
          Finished run(plan, {.costs = equal_costs(stages, pace.costs()), .links = {.all = link}});
          // Ten whole updates.
          const auto updates = run.recorder.of(stage(0), WorkKind::kUpdate);
          const Window window = {updates[4].times.end, updates[14].times.end};
          const double expected = flushed_share(stages, groups, ratio);
          for (int64_t s = 0; s < stages; ++s) {
            EXPECT_NEAR(run.simulation.busy_share(stage(s), window), expected, 1e-6)
                << "P " << stages << ", K " << groups * stages << ", L/T " << ratio << ", b "
                << pace.backward_us << ", stage " << s;
          }
        }
      }
    }
  }
}

// Extra depth e adds e microbatches in flight per hop: (P-1)(1+e) + 1 of them last P T + 2 L (P-1)
// when e T >= 2 L.
TEST(BusyShare, PlannedDepthHidesLatency) {
  const Nanos period = 2 * kMillisecond;
  for (const int64_t stages : {2, 4, 8}) {
    for (const int64_t latency_us : {300, 1000, 2500, 6000}) {
      const LinkOptions link = {.latency = latency_us * kMicrosecond};
      const int64_t round_trip = 2 * link.latency.count;
      const int64_t extra = (round_trip + period.count - 1) / period.count;
      const Pace pace = {1000, 1000, 0};
      const SimulationOptions options = {.costs = equal_costs(stages, pace.costs()),
                                         .links = {.all = link}};
      const int64_t depth = (stages - 1) * (1 + extra) + 1;
      Finished deep(plan_of({.stages = stages, .update_every = depth, .extra_per_hop = extra}, 40),
                    options);
      Finished flat(plan_of({.stages = stages, .update_every = stages}, 40), options);
      Finished flushed(
          plan_of({.order = PipelineSchedule::k1f1b, .stages = stages, .update_every = stages}, 40),
          options);
      for (int64_t s = 0; s < stages; ++s) {
        EXPECT_GE(deep.steady_share(s), 0.95) << "P " << stages << ", latency " << latency_us;
        EXPECT_LT(flat.steady_share(s), 0.9);  // depth makes the difference
        EXPECT_LT(flushed.steady_share(s), flat.steady_share(s));
      }
    }
  }
}

// Compares the planner's arithmetic with the simulation: unequal stages, transfers that take time.
class Foretold {
 public:
  explicit Foretold(uint64_t seed) : key_{.seed = seed, .stream = Stream::kSampler, .name = 0} {}

  int64_t draw(int64_t from, int64_t to) {  // both included
    const auto count = static_cast<uint64_t>(to - from + 1);
    return from + static_cast<int64_t>(random_bits(key_, counter_++) % count);
  }
  void draw_stages(int64_t count, bool equal) {
    for (int64_t s = 0; s < count; ++s) {
      if (equal && s > 0) {
        options.costs.push_back(options.costs.front());
      } else {
        options.costs.push_back({.forward = draw(200, 1000) * kMicrosecond,
                                 .backward = draw(300, 2000) * kMicrosecond});
      }
      const StageCosts& costs = options.costs.back();
      times.stages.push_back({costs.forward, costs.backward, costs.update});
    }
  }
  void draw_link() {
    const int64_t transfer_us = draw(0, 500);
    activation_bytes = 1'000'000 - kHeaderBytes;
    options.links.all.latency = draw(0, 4000) * kMicrosecond;
    options.links.all.bytes_per_second =
        transfer_us == 0 ? 0 : 1e12 / static_cast<double>(transfer_us);
    times.hop = {.latency = options.links.all.latency, .transfer = transfer_us * kMicrosecond};
  }
  int64_t slowest() const {
    int64_t found = 0;
    const auto slot = [&](int64_t s) {
      const StageCosts& costs = options.costs[static_cast<size_t>(s)];
      return costs.forward + costs.backward;
    };
    for (int64_t s = 1; s < std::ssize(options.costs); ++s) {
      if (slot(s) > slot(found)) found = s;
    }
    return found;
  }

  SimulationOptions options;
  PipelineTimes times;
  int64_t activation_bytes = 0;

 private:
  RandomKey key_;
  uint64_t counter_ = 0;
};

TEST(BusyShare, OfAnAsyncPipelineMatchesThePlanner) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Foretold case_of(seed);
    const PipelineShape shape = {.stages = case_of.draw(2, 7),
                                 .update_every = case_of.draw(1, 9),
                                 .extra_per_hop = case_of.draw(0, 4)};
    case_of.draw_stages(shape.stages, /*equal=*/false);
    case_of.draw_link();
    RunPlan plan = plan_of(shape, 800 / shape.update_every);
    plan.activation_bytes = case_of.activation_bytes;
    Finished run(plan, case_of.options);
    EXPECT_NEAR(run.steady_share(case_of.slowest()), busy_share(shape, case_of.times), 0.01)
        << "seed " << seed;

    PipelineShape deep = shape;
    deep.extra_per_hop = plan_depth(case_of.times, shape.update_every).extra_per_hop;
    RunPlan deep_plan = plan;
    deep_plan.shape = deep;
    Finished deep_run(deep_plan, case_of.options);
    EXPECT_GE(deep_run.steady_share(case_of.slowest()), 0.98) << "seed " << seed;
  }
}

TEST(BusyShare, OfAFlushingPipelineMatchesThePlanner) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Foretold case_of(seed);
    const PipelineShape shape = {
        .order = seed % 2 == 0 ? PipelineSchedule::k1f1b : PipelineSchedule::kGpipe,
        .stages = case_of.draw(2, 7),
        .update_every = case_of.draw(1, 20)};
    case_of.draw_stages(shape.stages, /*equal=*/true);
    case_of.draw_link();
    RunPlan plan = plan_of(shape, 20);
    plan.activation_bytes = case_of.activation_bytes;
    Finished run(plan, case_of.options);
    const auto updates = run.recorder.of(stage(0), WorkKind::kUpdate);
    const Window window = {updates[4].times.end, updates[14].times.end};
    const double share = run.simulation.busy_share(stage(0), window);
    EXPECT_NEAR(share, busy_share(shape, case_of.times), 0.01) << "seed " << seed;
  }
}

}  // namespace
}  // namespace leeway::sim
