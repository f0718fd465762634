#include "drivers/sim/pauses.h"

#include <gtest/gtest.h>

#include "sim_testing.h"

namespace leeway::sim {
namespace {

constexpr Mesh kMesh = {.stages = 2, .replicas = 1};

TEST(BusyIntervals, JoinsIntervalsThatTouch) {
  BusyIntervals busy;
  busy.add({10}, {20});
  busy.add({20}, {30});
  busy.add({50}, {60});
  EXPECT_EQ(busy.total(), Nanos{30});
  EXPECT_EQ(busy.last_end(), Nanos{60});
  EXPECT_EQ(busy.within({{0}, {100}}), Nanos{30});
  EXPECT_EQ(busy.within({{15}, {55}}), Nanos{20});
  EXPECT_EQ(busy.within({{30}, {50}}), Nanos{0});
  EXPECT_EQ(busy.within({{60}, {70}}), Nanos{0});
}

TEST(Pauses, StretchWorkThatHadBegun) {
  const Pauses pauses(kMesh, {{stage(1), {100}, {50}}});
  BusyIntervals other;
  EXPECT_EQ(pauses.work(0, {90}, {40}, other), Nanos{130});
  BusyIntervals busy;
  EXPECT_EQ(pauses.work(1, {60}, {30}, busy), Nanos{90});   // before the pause
  EXPECT_EQ(pauses.work(1, {90}, {10}, busy), Nanos{100});  // done when the pause begins
  BusyIntervals stretched;
  EXPECT_EQ(pauses.work(1, {90}, {40}, stretched), Nanos{180});
  EXPECT_EQ(stretched.total(), Nanos{40});
  EXPECT_EQ(stretched.within({{100}, {150}}), Nanos{0});
  EXPECT_EQ(pauses.work(1, {200}, {40}, stretched), Nanos{240});  // after the pause
}

TEST(Pauses, IncludeTheirBeginButNotTheirEnd) {
  const Pauses pauses(kMesh, {{stage(0), {100}, {50}}});
  EXPECT_EQ(pauses.awake_at(0, {99}), std::nullopt);
  EXPECT_EQ(pauses.awake_at(0, {100}), Nanos{150});
  EXPECT_EQ(pauses.awake_at(0, {149}), Nanos{150});
  EXPECT_EQ(pauses.awake_at(0, {150}), std::nullopt);
  EXPECT_EQ(pauses.awake_at(1, {100}), std::nullopt);
}

TEST(Pauses, OverlapsBecomeOne) {
  const Pauses pauses(kMesh,
                      {{stage(0), {120}, {50}}, {stage(0), {100}, {30}}, {stage(0), {170}, {10}}});
  EXPECT_EQ(pauses.awake_at(0, {101}), Nanos{180});
  BusyIntervals busy;
  EXPECT_EQ(pauses.work(0, {95}, {10}, busy), Nanos{185});
}

// P = 1, forward 10, backward 20: microbatch m runs from 30m to 30m + 30.
TEST(Pauses, APausedWorkerStartsNothing) {
  const RunPlan plan = plan_of({.stages = 1}, 2);
  const StageCosts costs = {.forward = {10}, .backward = {20}};
  SimulationOptions options = {.costs = {costs}};
  options.pauses = {{stage(0), {30}, {100}}, {stage(0), {140}, {5}}};
  Finished run(plan, options);
  const auto forwards = run.recorder.of(stage(0), WorkKind::kForward);
  const auto backwards = run.recorder.of(stage(0), WorkKind::kBackward);
  ASSERT_EQ(forwards.size(), 2U);
  EXPECT_EQ(backwards[0].times.end, Nanos{30});
  EXPECT_EQ(forwards[1].times.begin, Nanos{130});  // right at the end of the first pause
  EXPECT_EQ(forwards[1].times.end, Nanos{140});
  EXPECT_EQ(backwards[1].times.begin, Nanos{145});  // the second pause is between the two
  EXPECT_EQ(run.simulation.busy(stage(0)).total(), Nanos{60});
}

}  // namespace
}  // namespace leeway::sim
