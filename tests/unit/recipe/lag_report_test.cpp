#include "recipe/lag_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace leeway {
namespace {

using testing::HasSubstr;

Recipe recipe_of(const std::vector<std::string>& sets) {
  const auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? loaded->recipe : Recipe();
}

Recipe mesh(const std::vector<std::string>& more) {
  std::vector<std::string> sets = {"mesh.stages=4", "mesh.replicas=2", "data.batch=8",
                                   "run.driver=sim", "sim.flops=1e10"};
  sets.insert(sets.end(), more.begin(), more.end());
  return recipe_of(sets);
}

TEST(LagAdvice, NamesTheUpdateThatIsLongEnough) {
  const Recipe recipe = mesh({});
  ASSERT_EQ(recipe.pipeline.update_every, 4);
  EXPECT_EQ(lag_advice(recipe, 0.5), std::nullopt);
  EXPECT_EQ(lag_advice(recipe, 1.75),
            "means are merged 1.8 updates after sending: pipeline.update_every = 14 and data.batch "
            "= 28 (14 microbatches of 2) would make that at most half an update");
}

TEST(LagAdvice, IsForThoseWhoMergeOnArrival) {
  EXPECT_EQ(lag_advice(mesh({"averaging.merge=fixed_lag", "averaging.lag=3"}), 3), std::nullopt);
  EXPECT_EQ(lag_advice(mesh({"averaging.method=allreduce"}), 3), std::nullopt);
  EXPECT_EQ(lag_advice(mesh({"mesh.replicas=1"}), 3), std::nullopt);
  EXPECT_EQ(lag_advice(mesh({"averaging.method=diloco"}), 3), std::nullopt)
      << "its rounds are rare";
}

TEST(LagReport, FollowsTheSimulatedLinks) {
  EXPECT_THAT(lag_report(mesh({}), 257), HasSubstr("about 0.25 updates after sending"));
  const std::string slow = lag_report(mesh({"mesh.stages=1", "sim.latency_ms=5000"}), 257);
  EXPECT_THAT(slow, HasSubstr("note: means are merged"));
  EXPECT_THAT(slow, HasSubstr("at most half an update"));
  EXPECT_THAT(lag_report(mesh({"mesh.stages=1", "sim.bandwidth_mbit=0.001"}), 257),
              HasSubstr("note: "));
  EXPECT_EQ(lag_report(recipe_of({"mesh.replicas=2"}), 257), "") << "no links to know";
}

// The pipeline waits for the same links, so fewer microbatches fit into a round trip.
TEST(LagReport, KnowsThatThePipelineWaitsToo) {
  EXPECT_THAT(lag_report(mesh({"sim.latency_ms=5000"}), 257),
              HasSubstr("about 0.5 updates after sending"));
  EXPECT_THAT(lag_report(mesh({"sim.latency_ms=5000", "pipeline.extra_per_hop=1",
                               "pipeline.update_every=4"}),
                         257),
              HasSubstr("note: "));
}

}  // namespace
}  // namespace leeway
