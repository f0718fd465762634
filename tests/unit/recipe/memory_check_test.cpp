#include "recipe/memory_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "config/load.h"
#include "recipe/planned_memory.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

Recipe recipe_of(const std::vector<std::string>& sets) {
  auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? loaded->recipe : Recipe{};
}

std::string refusal_of(const std::vector<std::string>& sets, double available) {
  const Recipe recipe = recipe_of(sets);
  const Status status = check_memory(recipe, planned_memory(recipe, 257), {.machine = available});
  if (status.ok()) return "fits";
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  return status.error().message;
}

TEST(CheckMemory, AcceptsARunThatFits) {
  EXPECT_TRUE(check_memory(recipe_of({}), 257).ok());
  const double total = together(planned_memory(recipe_of({}), 257)).total();
  EXPECT_EQ(refusal_of({}, total), "fits");
  EXPECT_EQ(refusal_of({}, total / kMemoryDoubt + 1), "fits");
  EXPECT_THAT(refusal_of({}, total / kMemoryDoubt - 1), HasSubstr("this run needs about"));
}

TEST(CheckMemory, NotesARunThatMayNotFit) {
  const Recipe recipe = recipe_of({});
  const std::vector<StageMemory> plan = planned_memory(recipe, 257);
  const double total = together(plan).total();
  EXPECT_TRUE(memory_notes(recipe, plan, {.machine = total}).empty());
  const std::vector<std::string> notes = memory_notes(recipe, plan, {.machine = total - 1});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("memory: this run may need about "));
  EXPECT_THAT(notes[0], HasSubstr("; if it does not fit: set pipeline.recompute = true, "));
}

TEST(CheckMemory, NamesTheNeedTheMachineAndTheRemedies) {
  const std::string deep =
      refusal_of({"mesh.stages=4", "pipeline.extra_per_hop=50", "pipeline.update_every=1"}, 1e9);
  EXPECT_THAT(deep, HasSubstr(" GB of memory, "));
  EXPECT_THAT(deep, HasSubstr(" GB of it for activations, but this machine has 1.0 GB: lower "
                              "pipeline.extra_per_hop (50), set pipeline.recompute = true, lower "
                              "data.batch (16), set optimizer.moments = \"bf16\" or make the model "
                              "smaller"));
}

TEST(CheckMemory, AdvisesOnlyWhatIsStillPossible) {
  const std::string message = refusal_of({"pipeline.recompute=true", "data.batch=4",
                                          "pipeline.update_every=4", "optimizer.moments=bf16"},
                                         1e6);
  EXPECT_THAT(message, HasSubstr("but this machine has 1.0 MB: make the model smaller"));
  EXPECT_THAT(message, Not(HasSubstr("recompute")));
}

TEST(CheckMemory, CountsWhatTheRecipeAsksFor) {
  const auto memory = [](const std::vector<std::string>& sets) {
    return together(planned_memory(recipe_of(sets), 257));
  };
  const StageMemory plain = memory({"mesh.stages=4"});
  EXPECT_GT(plain.evaluation, memory({"mesh.stages=4", "run.evaluate_every=0"}).evaluation);
  EXPECT_GT(plain.activations, memory({"mesh.stages=4", "pipeline.recompute=true"}).activations);
  EXPECT_GT(plain.versions, memory({"mesh.stages=4", "pipeline.schedule=1f1b"}).versions);
  EXPECT_GT(plain.versions, memory({"mesh.stages=4", "pipeline.refresh=1"}).versions);
  EXPECT_EQ(plain.last_update, 0);
  EXPECT_GT(memory({"mesh.stages=4", "pipeline.lookahead=predict"}).last_update, 0);
  EXPECT_GT(plain.optimizer, memory({"mesh.stages=4", "optimizer.name=sgd"}).optimizer);
  EXPECT_GT(plain.optimizer, memory({"mesh.stages=4", "optimizer.moments=bf16"}).optimizer);
}

TEST(CheckMemory, CountsReplicasAndWhatTheyKeep) {
  const auto memory = [](std::vector<std::string> sets) {
    sets.push_back("mesh.stages=2");
    const Recipe recipe = recipe_of(sets);
    return memory_of_all(recipe, planned_memory(recipe, 257));
  };
  const StageMemory one = memory({});
  const StageMemory three = memory({"mesh.replicas=3"});
  EXPECT_EQ(three.parameters, one.parameters);
  EXPECT_EQ(three.weights, 3 * one.weights);
  EXPECT_EQ(three.activations, 3 * one.activations);
  EXPECT_EQ(one.averaging, 0);
  // Every replica keeps ema, anchor and outer momentum, plus rounds of a twentieth.
  EXPECT_GT(three.averaging, 3 * three.weights);
  EXPECT_LT(three.averaging, 3.5 * three.weights);
  // Only the first replica has copies for evaluation, and those of others only if it evaluates
  // means on the way.
  const auto evaluation = [&](const char* means) {
    return memory({"mesh.replicas=3", "averaging.method=none", "data.batch=64", "run.updates=100",
                   "run.evaluate_every=10", means})
        .evaluation;
  };
  EXPECT_GT(evaluation("run.evaluate_mean_every=10"), evaluation("run.evaluate_mean_every=0"));
  EXPECT_EQ(memory({"mesh.replicas=3", "averaging.method=none"}).averaging, 0);
  const std::vector<std::string> slow = {"mesh.replicas=3", "averaging.merge=fixed_lag"};
  EXPECT_GT(memory({slow[0], slow[1], "averaging.lag=40"}).averaging,
            memory({slow[0], slow[1], "averaging.lag=1"}).averaging);
  EXPECT_THAT(refusal_of({"mesh.replicas=3", "data.batch=1"}, 1e6),
              HasSubstr("lower mesh.replicas (3) or make the model smaller"));
}

TEST(CheckMemory, ChecksEachGpuByTheWorkersThatAreThere) {
  const std::vector<std::string> sets = {"run.device=cuda", "mesh.stages=2", "mesh.replicas=2",
                                         "averaging.method=lowbit"};
  const Recipe recipe = recipe_of(sets);
  const std::vector<StageMemory> plan = planned_memory(recipe, 257);
  const auto check = [&](const std::vector<double>& gpus) {
    const Status status = check_memory(recipe, plan, {.machine = 0, .gpus = gpus});
    return status.ok() ? std::string("fits") : status.error().message;
  };
  // All on one, where replicas share what they keep of each other.
  const double all = memory_of_all(recipe, plan).total();
  EXPECT_LT(all, together(all_workers(plan, 2)).total()) << "not all are inside a backward at once";
  const auto too_little = [](double need) { return need / kMemoryDoubt - 1; };
  EXPECT_EQ(check({all}), "fits");
  EXPECT_THAT(check({too_little(all)}), HasSubstr("of memory on cuda, "));
  EXPECT_THAT(check({too_little(all)}), HasSubstr(", but it has "));
  EXPECT_EQ(check({0}), "fits") << "a GPU that does not say what it has";
  // One each: the first replica evaluates.
  const double followed = plan[1].total() - plan[1].evaluation;
  EXPECT_EQ(check({plan[0].total(), plan[1].total(), plan[0].total(), followed}), "fits");
  EXPECT_THAT(check({plan[0].total(), plan[1].total(), plan[0].total(), too_little(followed)}),
              HasSubstr("on cuda:3"));
  EXPECT_EQ(check({}), "fits") << "unknown GPUs";
}

TEST(CheckMemory, ChecksTheMachineIfAGpuStashesThere) {
  const std::vector<std::string> deep = {"run.device=cuda", "mesh.stages=4",
                                         "pipeline.update_every=1"};
  const auto check = [&](std::vector<std::string> sets, const DeviceMemory& there) {
    sets.insert(sets.begin(), deep.begin(), deep.end());
    const Recipe recipe = recipe_of(sets);
    const Status status = check_memory(recipe, planned_memory(recipe, 257), there);
    return status.ok() ? std::string("fits") : status.error().message;
  };
  const std::string host = "pipeline.stash_on=host";
  const Recipe recipe = recipe_of({deep[0], deep[1], deep[2], host});
  const StageMemory need = memory_of_all(recipe, planned_memory(recipe, 257));
  EXPECT_GT(need.host, 0);
  EXPECT_EQ(check({host}, {.machine = need.host, .gpus = {need.total()}}), "fits");
  EXPECT_THAT(check({host}, {.machine = need.host - 1, .gpus = {need.total()}}),
              HasSubstr("with pipeline.stash_on = \"host\" this run keeps about "));
  EXPECT_THAT(check({}, {.machine = 0, .gpus = {need.total() / 2}}),
              HasSubstr("set pipeline.stash_on = \"host\""));
}

TEST(CheckMemory, CountsTheWorkersOfAGpuThatAreInsideAPieceOfWork) {
  struct Case {
    int64_t stages;
    bool recompute;
    size_t inside;
  };
  for (const Case& of : {Case{1, false, 1},
                         {1, true, 1},
                         {2, false, 1},
                         {2, true, 2},
                         {4, false, 2},
                         {4, true, 3},
                         {8, false, 4},
                         {8, true, 6}}) {
    const Recipe recipe = recipe_of({"run.device=cuda", "model.layers=8", "pipeline.graphs=false",
                                     fmt::format("mesh.stages={}", of.stages),
                                     fmt::format("pipeline.recompute={}", of.recompute)});
    const std::vector<StageMemory> plan = planned_memory(recipe, 257);
    std::vector<double> working;
    for (const StageMemory& stage : plan) working.push_back(stage.working);
    std::ranges::sort(working, std::ranges::greater());
    double most = 0;
    for (size_t i = 0; i < of.inside; ++i) most += working[i];
    EXPECT_NEAR(memory_of_all(recipe, plan).working / most, 1, 1e-12) << of.stages;
  }
}

// Graphs need the stash where it is made, and would take what recompute saves.
TEST(CheckMemory, KnowsWhereGraphsAreUsed) {
  const auto has_graphs = [](const std::vector<std::string>& sets) {
    return stage_options(recipe_of(sets), 257).front().graphs;
  };
  const std::string cuda = "run.device=cuda";
  EXPECT_TRUE(has_graphs({cuda}));
  EXPECT_FALSE(has_graphs({}));
  EXPECT_FALSE(has_graphs({cuda, "pipeline.graphs=false"}));
  EXPECT_FALSE(has_graphs({cuda, "pipeline.recompute=true"}));
  EXPECT_FALSE(has_graphs({cuda, "mesh.stages=2", "pipeline.stash_on=host"}));

  const auto planned = [&](const std::string& graphs) {
    const Recipe recipe = recipe_of({cuda, "mesh.stages=4", graphs});
    return memory_of_all(recipe, planned_memory(recipe, 257));
  };
  EXPECT_GT(planned("pipeline.graphs=true").activations,
            planned("pipeline.graphs=false").activations);
  const std::string off = "set pipeline.graphs = false";
  for (const auto& advice : {memory_advice, memory_advice_on_resume}) {
    EXPECT_THAT(advice(recipe_of({cuda})), HasSubstr(off));
    EXPECT_THAT(advice(recipe_of({cuda, "pipeline.graphs=false"})), Not(HasSubstr(off)));
    EXPECT_THAT(advice(recipe_of({})), Not(HasSubstr(off)));
  }
}

TEST(CheckMemory, GoesByTheGpusThatTheRecipeNames) {
  const Recipe recipe = recipe_of({"run.device=cuda", "mesh.devices=[\"cuda:1\"]"});
  const std::vector<StageMemory> plan = planned_memory(recipe, 257);
  const double need = together(plan).total();
  EXPECT_TRUE(check_memory(recipe, plan, {.machine = 0, .gpus = {1, need}}).ok());
  EXPECT_FALSE(
      check_memory(recipe, plan, {.machine = 0, .gpus = {1, need / kMemoryDoubt - 1}}).ok());
}

TEST(CheckMemory, IsThatOfThisMachine) {
  EXPECT_TRUE(check_memory(recipe_of({"run.device=cuda", "data.batch=1000000"}), 257).ok());
  EXPECT_FALSE(check_memory(recipe_of({"data.batch=1000000", "model.context=1000000"}), 257).ok());
}

TEST(CheckMemory, CountsAnswersOnlyAsFarAsTheRunGoes) {
  const auto averaging = [](const std::string& updates) {
    return together(planned_memory(recipe_of({"mesh.replicas=2", "averaging.method=lowbit",
                                              "run.updates=" + updates}),
                                   257))
        .averaging;
  };
  EXPECT_LT(averaging("10"), averaging("40"));
  EXPECT_EQ(averaging("200"), averaging("400"));
}

}  // namespace
}  // namespace leeway
