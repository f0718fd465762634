// What can be computed by hand, to 1 %.
#include "recipe/stage_costs.h"
#include "simulate_testing.h"

namespace leeway {
namespace {

// A stage's costs for a microbatch, in seconds, on the test's machines.
struct Costs {
  double microbatch = 0;
  double update = 0;
  double round = 0;  // of four replicas: the part, its chunk's mean, all merges
};
Costs costs_of(const MethodResult& result, size_t stage) {
  const auto unit = unit_costs(result.recipe.recipe, 257)[stage];
  constexpr double kSpeed = 0.001;  // TFLOP/s
  const sim::RoundCosts& rounds = unit.rounds;
  const Nanos round = rounds.contribute + rounds.answer + (rounds.part + rounds.merge) * 4;
  return {(unit.forward.seconds() + unit.backward.seconds()) / kSpeed,
          unit.update.seconds() / kSpeed, round.seconds() / kSpeed};
}

double tokens_of(const Recipe& recipe) {
  return static_cast<double>(recipe.data.batch * recipe.model.context);
}

// Embedding and head make the ends differ, so the largest of eight stages decides; an update of a
// pipeline that flushes takes at least K + P - 1 slots of the middle stages.
TEST(ClosedForm, ABubbleIsPMinusOneOverKPlusPMinusOne) {
  const Scenario scenario = scenario_of(scenario_text(""));
  for (const std::string schedule : {"1f1b", "gpipe"}) {
    for (const int64_t update_every : {4, 16}) {
      const MethodResult result = result_of(
          scenario, {"mesh.stages=8", "pipeline.schedule=" + schedule, "optimizer.name=sgd",
                     "pipeline.update_every=" + std::to_string(update_every)});
      // Stages are not quite equal: the first microbatch passes through all of them, and the
      // slowest stage sets the pace of the others.
      double way = 0, slowest = 0;
      for (size_t s = 0; s < 8; ++s) {
        const Costs costs = costs_of(result, s);
        way += costs.microbatch;
        slowest = std::max(slowest, costs.microbatch);
      }
      const double update = way + static_cast<double>(update_every - 1) * slowest;
      const double expected = tokens_of(result.recipe.recipe) / update;
      EXPECT_NEAR(result.tokens_per_second / expected, 1, 0.01) << schedule << " " << update_every;
    }
  }
}

// Every activation and gradient occupies its link for longer than a stage takes, so messages go one
// after the other, in each direction.
TEST(ClosedForm, ABandwidthBoundLinkCarriesItsBytes) {
  const Scenario scenario = scenario_of(scenario_text("bandwidth_mbit = 0.1"));
  const MethodResult result =
      result_of(scenario, {"mesh.stages=2", "pipeline.update_every=4", "pipeline.extra_per_hop=2"});
  const double message = 4 * 32 * 32 * 4 + 64;  // 4 sequences of 32 tokens, 32 numbers each
  const double seconds = 4 * message * 8 / 0.1e6;
  EXPECT_NEAR(result.tokens_per_second / (tokens_of(result.recipe.recipe) / seconds), 1, 0.01);
}

// The same if the limit is a machine's line, not the link: two neighbours share it.
TEST(ClosedForm, AMachinesLineIsSharedByAllItSends) {
  const Scenario scenario = scenario_of(scenario_text("uplink_mbit = 0.1"));
  const MethodResult result = result_of(scenario, {"mesh.stages=3", "pipeline.update_every=4"});
  const double message = 4 * 32 * 32 * 4 + 64;
  const double seconds = 4 * 2 * message * 8 / 0.1e6;  // of the middle stage, one each way
  EXPECT_NEAR(result.tokens_per_second / (tokens_of(result.recipe.recipe) / seconds), 1, 0.01);
}

// W_0 + 1 microbatches are in flight; there and back takes 2 (P - 1) latencies.
TEST(ClosedForm, ALatencyBoundPipelineHasItsDepthInFlight) {
  const Scenario scenario = scenario_of(scenario_text("latency_ms = 10000"));
  for (const int64_t extra : {0, 2}) {
    const MethodResult result = result_of(
        scenario, {"mesh.stages=4", "optimizer.name=sgd", "data.batch=40",
                   "pipeline.update_every=10", "pipeline.extra_per_hop=" + std::to_string(extra)});
    const double depth = static_cast<double>(3 * (1 + extra) + 1);
    double way = 2 * 3 * 10.0;
    for (size_t s = 0; s < 4; ++s) way += costs_of(result, s).microbatch;
    const double per_microbatch = tokens_of(result.recipe.recipe) / 10;
    EXPECT_NEAR(result.tokens_per_second / (depth * per_microbatch / way), 1, 0.01) << extra;
  }
}

// Each of R replicas sends R - 1 of R chunks to their owners and as many answers back; a link has
// one chunk each way at a time, and both ways take a latency.
TEST(ClosedForm, AnAllreduceTakesTwoChunksAndTwoLatencies) {
  const Scenario scenario = scenario_of(scenario_text("latency_ms = 500\nbandwidth_mbit = 0.05"));
  const MethodResult result =
      result_of(scenario, {"mesh.replicas=4", "averaging.method=allreduce", "optimizer.name=sgd"});
  const Costs costs = costs_of(result, 0);
  const int64_t runs = (result.parameters + 511) / 512;  // chunks are whole runs of 512 weights
  const double chunk = static_cast<double>((runs + 3) / 4 * 512 * 4 + 64);
  const double update =
      costs.microbatch + costs.update + costs.round + 2 * (chunk * 8 / 0.05e6 + 0.5);
  const double expected = 4 * tokens_of(result.recipe.recipe) / update;
  EXPECT_NEAR(result.tokens_per_second / expected, 1, 0.01);
}

// Two cores for four workers that would otherwise always be busy: half the speed.
TEST(ClosedForm, WorkersThatShareCoresTakeTurns) {
  const Scenario own = scenario_of(scenario_text("", "tflops = 0.001\nworkers = 4"));
  const Scenario shared = scenario_of(scenario_text("", "tflops = 0.001\nworkers = 4\ncores = 2"));
  const std::vector<std::string> sets = {"mesh.replicas=4", "averaging.method=none"};
  const MethodResult alone = result_of(own, sets);
  EXPECT_NEAR(result_of(shared, sets).tokens_per_second / alone.tokens_per_second, 0.5, 0.005);
}

// A link that works every other second carries half.
TEST(ClosedForm, ARecordedLinkCarriesWhatWasRecorded) {
  const sim::LinkTrace trace({{{0}, 1000, {1}}, {{1'000'000'000}, 0, {2}}});
  EXPECT_EQ(trace.end_of_transfer({0}, 500).count, 500'000'000);
  EXPECT_EQ(trace.end_of_transfer({0}, 1500).count, 2'500'000'000);
  EXPECT_EQ(trace.end_of_transfer({1'200'000'000}, 1000).count, 3'000'000'000);
  EXPECT_EQ(trace.latency({3'500'000'000}).count, 2);
}

}  // namespace
}  // namespace leeway
