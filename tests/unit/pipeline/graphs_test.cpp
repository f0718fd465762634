// Microbatches as graphs beside microbatches as they are: the same bits, and as many slots as were
// in flight. On the CPU a graph runs its work anew, so that what is tested is that the work has all
// it needs in its slot.
#include <vector>

#include "late_stage.h"

namespace leeway {
namespace {

StageOptions options_of(const LateCase& with, bool graphs) {
  StageOptions all = with.options();
  all.graphs = graphs;
  return all;
}

class Graphs : public testing::TestWithParam<LateCase> {};
INSTANTIATE_TEST_SUITE_P(LookAheads, Graphs, testing::ValuesIn(kLateCases));

TEST_P(Graphs, GiveTheSameBitsWithASlotForEachInFlight) {
  const LateCase& with = GetParam();
  for (const int64_t depth : {1, 2, 5}) {
    for (const int64_t every : {1, 3, 6, 9}) {
      if (with.guesses > 0 && every <= depth) continue;  // no gradient to guess from
      SCOPED_TRACE(testing::Message() << "W " << depth << ", K " << every);
      const Schedule schedule = schedule_of(depth, every);
      Late graphs(schedule, options_of(with, true), with.guesses);
      Late plain(schedule, options_of(with, false), with.guesses);
      for (Late* late : {&graphs, &plain}) late->run(5 + 2 * schedule.delay_max());
      expect_same(graphs, plain);
      EXPECT_EQ(graphs.stage.versions_peak(), plain.stage.versions_peak());
      EXPECT_EQ(graphs.stage.slot_count(), depth + 1);
      EXPECT_EQ(plain.stage.slot_count(), 0);
    }
  }
}

TEST_P(Graphs, ARestartFreesTheSlots) {
  const LateCase& with = GetParam();
  const Schedule schedule = schedule_of(/*depth=*/5, /*update_every=*/6);
  Late graphs(schedule, options_of(with, true), with.guesses);
  Late plain(schedule, options_of(with, false), with.guesses);
  for (Late* late : {&graphs, &plain}) {
    late->run(2);
    ASSERT_GT(late->stage.in_flight_count(), 0);
    late->restart();  // some of what went forward never comes back
    late->run(8);
  }
  expect_same(graphs, plain);
  EXPECT_EQ(graphs.stage.slot_count(), 6);
}

// A stage in the middle: activations come from outside, and so do their gradients.
TEST(GraphsAlone, AMiddleStageGivesTheSameBits) {
  ModelShape shape = tiny();
  shape.layers = 3;
  StageOptions options = tiny_options();
  options.shape = shape;
  options.slice = cut_into_stages(shape, 3)[1];
  const auto numbers = [&](int64_t seed) {
    const at::Tensor all = at::arange(2 * 5 * shape.width, at::kFloat);
    return all.mul(0.37).add_(static_cast<double>(seed)).sin_().view({2, 5, shape.width});
  };
  std::vector<std::vector<at::Tensor>> results;
  for (const bool graphs : {false, true}) {
    options.graphs = graphs;
    Stage stage(options);
    std::vector<at::Tensor> result;
    for (int64_t update = 0; update < 3; ++update) {
      const std::vector<int64_t> both = {2 * update, 2 * update + 1};
      for (const int64_t m : both) result.push_back(stage.forward({m}, {}, numbers(m)));
      for (const int64_t m : both) result.push_back(stage.backward({m}, numbers(100 + m)));
      result.push_back(stage.gradients().clone());
      stage.update(1, 1);
      result.push_back(stage.weights().clone());
    }
    results.push_back(result);
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
  }
}

TEST(GraphsDeath, AStashOnTheHostHasNone) {
  StageOptions options = tiny_options();
  options.graphs = true;
  options.stash_on = StashPlace::kHost;
  EXPECT_DEATH(Stage{options}, "the version of its forward");
}

}  // namespace
}  // namespace leeway
