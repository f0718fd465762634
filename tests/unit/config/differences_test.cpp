#include "config/differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/load.h"

namespace leeway {
namespace {

Recipe recipe_of(const std::vector<std::string>& sets) {
  return parse_recipe("data.train = 'x'", "test", sets).value().recipe;
}

TEST(Compare, EqualRecipesDoNotDiffer) {
  EXPECT_TRUE(differences(recipe_of({}), recipe_of({})).empty());
}

TEST(Compare, WatchingDoesNotMatter) {
  const Recipe other = recipe_of({"run.keep=9", "run.evaluate_every=3", "run.threads_per_worker=1",
                                  "run.device=cuda", "run.log=all"});
  EXPECT_TRUE(differences(recipe_of({}), other).empty());
}

TEST(Compare, DrivingDoesNotMatter) {
  const Recipe other = recipe_of({"run.driver=sim", "sim.flops=1e9", "sim.latency_ms=3",
                                  "sim.bandwidth_mbit=9", "sim.jitter_ms=1", "sim.speeds=[2]"});
  EXPECT_TRUE(differences(recipe_of({}), other).empty());
  EXPECT_TRUE(differences(recipe_of({}), recipe_of({"pipeline.recompute=true"})).empty());
  EXPECT_TRUE(differences(recipe_of({}), recipe_of({"pipeline.stash_on=host"})).empty());
  EXPECT_TRUE(differences(recipe_of({}), recipe_of({"pipeline.graphs=false"})).empty());
}

TEST(Compare, CheckpointsMatterIfTheyDrainThePipeline) {
  const auto change = [](const std::string& stages, const std::string& schedule) {
    const std::string mesh = "mesh.stages=" + stages, order = "pipeline.schedule=" + schedule;
    return differences(recipe_of({mesh, order, "run.checkpoint_every=3"}),
                       recipe_of({mesh, order, "run.checkpoint_every=7"}));
  };
  EXPECT_TRUE(change("1", "async").empty());
  EXPECT_TRUE(change("4", "1f1b").empty());
  ASSERT_EQ(change("4", "async").size(), 1U);
  EXPECT_TRUE(change("4", "async")[0].may_change) << "reported, but the run may continue";
}

TEST(Compare, NoKeyOfTheSimulatorOrTheNetworkMatters) {
  for (const Key& key : keys()) {
    if (key.table() != "sim" && !key.table().starts_with("network")) continue;
    Recipe other = recipe_of({});
    const bool changed = assign(key, 0.25, other) || assign(key, false, other) ||
                         assign(key, std::vector<double>{3}, other) ||
                         assign(key, std::vector<std::string>{"replica 0 lost at 3"}, other) ||
                         assign(key, int64_t{30}, other) || assign(key, "tcp://a:1", other);
    ASSERT_TRUE(changed) << key.path;
    EXPECT_TRUE(differences(recipe_of({}), other).empty()) << key.path;
  }
}

TEST(Compare, KeysOfDelaysAndLookaheadMustStay) {
  struct Change {
    std::string lookahead;
    std::string set;
  };
  const std::vector<Change> all = {
      {"none", "pipeline.schedule=1f1b"},      {"matched", "pipeline.update_every=2"},
      {"matched", "pipeline.extra_per_hop=1"}, {"matched", "pipeline.lookahead=none"},
      {"matched", "pipeline.horizon=0.5"},     {"matched", "mesh.stages=2"},
  };
  for (const auto& [lookahead, set] : all) {
    const std::vector<std::string> base = {"pipeline.update_every=1",
                                           "pipeline.lookahead=" + lookahead};
    const auto found = differences(recipe_of(base), recipe_of({base[0], base[1], set}));
    ASSERT_EQ(found.size(), 1U) << set;
    EXPECT_TRUE(set.starts_with(found[0].key));
    EXPECT_FALSE(found[0].may_change);
    EXPECT_FALSE(found[0].reason.empty());
  }
  const std::string recompute = "pipeline.recompute=true";
  EXPECT_EQ(differences(recipe_of({}), recipe_of({recompute, "pipeline.stash=false"})).size(), 1U);
}

TEST(Compare, WhatStagesSendMustStayIfThereAreTwo) {
  const auto with = [](const std::string& stages, const std::string& wire) {
    return recipe_of({"mesh.stages=" + stages, "pipeline.wire=" + wire});
  };
  const auto found = differences(with("2", "int4"), with("2", "int8"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].may_change);
  EXPECT_EQ(found[0].reason, "it decides what stages send each other");
  EXPECT_TRUE(differences(with("1", "int4"), with("1", "int8")).empty());
}

// No gradient is late there, so the number of stages does not matter.
TEST(Compare, SynchronousPipelinesMayChangeTheirStages) {
  const std::string none = "pipeline.lookahead=none";
  const Recipe two = recipe_of({"pipeline.schedule=1f1b", "mesh.stages=2"});
  const Recipe four = recipe_of({"pipeline.schedule=gpipe", "mesh.stages=4",
                                 "pipeline.update_every=2", "pipeline.extra_per_hop=1"});
  EXPECT_TRUE(differences(two, four).empty());
  const auto found =
      differences(two, recipe_of({"mesh.stages=4", "pipeline.update_every=2", none}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, "mesh.stages");
  EXPECT_EQ(found[0].reason,
            "in an asynchronous pipeline the number of stages decides how late gradients are");
  EXPECT_EQ(found[1].key, "pipeline.schedule");
}

TEST(Compare, ReplicasMayChangeAndAveragingWithThemIfOneIsAlone) {
  const auto replicas = differences(recipe_of({"mesh.replicas=2"}), recipe_of({"mesh.replicas=4"}));
  ASSERT_EQ(replicas.size(), 1U);
  EXPECT_EQ(replicas[0].key, "mesh.replicas");
  EXPECT_TRUE(replicas[0].may_change);
  const auto joined = differences(recipe_of({"mesh.replicas=1"}),
                                  recipe_of({"mesh.replicas=2", "averaging.method=lowbit"}));
  ASSERT_GT(joined.size(), 1U);
  for (const Difference& change : joined) EXPECT_TRUE(change.may_change) << change.key;
}

TEST(Compare, AveragingMustStay) {
  for (const Key& key : keys()) {
    if (key.table() != "averaging") continue;
    const Recipe begun = recipe_of({"mesh.replicas=2"});
    Recipe other = begun;
    const bool changed = assign(key, 0.25, other) || assign(key, int64_t{7}, other) ||
                         assign(key, true, other) || assign(key, "none", other) ||
                         assign(key, "fixed_lag", other) || assign(key, "bf16", other);
    ASSERT_TRUE(changed && begun != other) << key.path;
    const auto found = differences(begun, other);
    const bool no_matter = key.name() == "deadline_ms" || key.name() == "guard";
    ASSERT_EQ(found.size(), no_matter ? 0U : 1U) << key.path;
    if (no_matter) continue;
    EXPECT_FALSE(found[0].may_change);
    EXPECT_EQ(found[0].reason, "it decides how replicas merge their weights");
    Recipe alone = begun, other_alone = other;
    alone.mesh.replicas = other_alone.mesh.replicas = 1;
    EXPECT_TRUE(differences(alone, other_alone).empty()) << "one replica does not average";
  }
}

TEST(Compare, CheckpointsMatterIfTheyEndRounds) {
  const auto changes = [](const std::vector<std::string>& sets) {
    std::vector<std::string> often = sets, seldom = sets;
    often.push_back("run.checkpoint_every=3");
    seldom.push_back("run.checkpoint_every=7");
    return differences(recipe_of(often), recipe_of(seldom)).size();
  };
  EXPECT_EQ(changes({"mesh.replicas=2"}), 1U);
  EXPECT_EQ(changes({"mesh.replicas=2", "averaging.merge=fixed_lag"}), 1U);
  EXPECT_EQ(changes({"mesh.replicas=2", "averaging.merge=fixed_lag", "averaging.lag=0"}), 0U);
  EXPECT_EQ(changes({"mesh.replicas=2", "averaging.method=allreduce"}), 0U);
  EXPECT_EQ(changes({"mesh.replicas=2", "averaging.method=none"}), 0U);
  EXPECT_EQ(changes({"averaging.method=sparse"}), 0U);
}

TEST(Compare, NamesTheKeyAndBothValues) {
  const auto found = differences(recipe_of({}), recipe_of({"model.width=64", "run.seed=2"}));
  ASSERT_EQ(found.size(), 3U);  // model.hidden depends on the width
  EXPECT_EQ(found[0].key, "run.seed");
  EXPECT_EQ(found[1].key, "model.width");
  EXPECT_EQ(found[1].first, "128");
  EXPECT_EQ(found[1].second, "64");
  for (const Difference& difference : found) EXPECT_FALSE(difference.may_change);
}

TEST(Compare, RatesAndLengthMayChange) {
  const auto found = differences(recipe_of({}), recipe_of({"optimizer.rate=0.5", "run.updates=5"}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].may_change);
  EXPECT_TRUE(found[1].may_change);
}

}  // namespace
}  // namespace leeway
