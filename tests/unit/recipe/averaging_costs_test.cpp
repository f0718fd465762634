#include "recipe/averaging_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "averaging/subset.h"
#include "config/load.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

constexpr int64_t kVocabulary = 257;

Recipe recipe_of(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"model.width=32", "model.context=16", "mesh.stages=2"});
  auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? loaded->recipe : Recipe{};
}

int64_t parameters_of(const Recipe& recipe) {
  int64_t sum = 0;
  for (const StageOptions& stage : stage_options(recipe, kVocabulary)) {
    sum += parameter_count(slice_layout(stage.shape, stage.slice));
  }
  return sum;
}

// Compares the plan with a real worker's memory, with as many rounds in flight as possible.
void expect_real_memory(const std::vector<std::string>& sets) {
  const Recipe recipe = recipe_of(sets);
  const StageOptions options = stage_options(recipe, kVocabulary)[1];
  const std::vector<LaneOptions> lanes = lane_options(recipe, options, {1});
  Stage stage(options);
  AveragingCompute compute(lanes, {0}, stage);
  int64_t runs_apart = 0;  // in each lane a round may have one run more or less than average
  for (const LaneOptions& lane : lanes) {
    const int64_t rounds = rounds_in_flight_max(recipe, round_interval(recipe));
    for (int64_t round = 0; round < rounds; ++round) {
      if (lane.payload == RoundPayload::kSteps) {
        const std::vector<bool> all(static_cast<size_t>(lane.chunks), true);
        compute.contribute_steps(lane.lane, round + 1, all, /*exact=*/false);
      } else {
        compute.contribute(lane.lane, round);
      }
    }
    runs_apart += rounds * (Cut(lane.cut).granularity() * 4);
  }
  const AveragingMemory plan = averaging_memory(recipe, options, {1});
  EXPECT_EQ(plan.buffers, static_cast<double>(compute.buffer_bytes())) << sets.front();
  EXPECT_NEAR(plan.flights, static_cast<double>(compute.flight_bytes()),
              static_cast<double>(runs_apart))
      << sets.front();
  const bool gradients = lanes.front().payload == RoundPayload::kGradients;
  EXPECT_EQ(compute.flight_bytes() == 0, gradients) << "of those nothing is kept";
}

TEST(AveragingMemory, MatchesARealWorker) {
  const std::string fixed = "averaging.merge=fixed_lag";
  expect_real_memory({"mesh.replicas=2", fixed, "averaging.lag=3"});
  expect_real_memory({"mesh.replicas=3", fixed, "averaging.lag=7", "averaging.interval=3"});
  expect_real_memory({"mesh.replicas=2", "averaging.correction=delta"});
  expect_real_memory(
      {"mesh.replicas=2", "averaging.correction=none", "averaging.outer_momentum=0"});
  expect_real_memory({"mesh.replicas=2", "run.precision=bf16"});
  for (const char* method : {"lowbit", "allreduce", "weights", "diloco"}) {
    expect_real_memory({"mesh.replicas=4", std::string("averaging.method=") + method});
  }
  expect_real_memory(
      {"mesh.replicas=2", "averaging.method=lowbit", "averaging.smoothing=0", "averaging.gain=0"});
}

TEST(AveragingMemory, IsZeroWithoutAveraging) {
  for (const char* set : {"mesh.replicas=1", "averaging.method=none"}) {
    const Recipe recipe = recipe_of({"mesh.replicas=2", set});
    const StageOptions stage = stage_options(recipe, kVocabulary)[0];
    const AveragingMemory memory = averaging_memory(recipe, stage, {0});
    EXPECT_EQ(memory.buffers + memory.flights + memory.answers, 0);
  }
}

// Of normally distributed values, at a threshold of .6: 55 % are not zeros. 0.993 bits for where
// they are, as many as there are for their signs, and 16 for the scale of each 512.
constexpr double kTernaryBits = 0.993 + 0.549 + 16.0 / 512;

TEST(AveragingMemory, EveryMemberOfACommonModelKeepsAnswers) {
  const auto answers_per_weight = [](const char* lag) {
    const Recipe recipe =
        recipe_of({"mesh.replicas=2", "averaging.method=lowbit", "averaging.merge=fixed_lag", lag});
    const StageOptions stage = stage_options(recipe, kVocabulary)[0];
    const auto parameters =
        static_cast<double>(parameter_count(slice_layout(stage.shape, stage.slice)));
    return averaging_memory(recipe, stage, {0}).answers / parameters;
  };
  EXPECT_NEAR(answers_per_weight("averaging.lag=1"), 4, 1e-9) << "the bytes of the chunk";
  // As many bytes as 22 of them have before they are packed.
  EXPECT_NEAR(answers_per_weight("averaging.lag=10"), 22.0 * (103 + 4) / 512, 0.03);
}

TEST(RoundsInFlight, FollowTheLag) {
  const auto rounds = [](const char* lag, int64_t interval) {
    return rounds_in_flight_max(recipe_of({"mesh.replicas=2", "averaging.merge=fixed_lag",
                                           std::string("averaging.lag=") + lag}),
                                interval);
  };
  EXPECT_EQ(rounds("0", 1), 1);  // in flight until its merge, right away
  EXPECT_EQ(rounds("1", 1), 1);
  EXPECT_EQ(rounds("5", 1), 5);
  EXPECT_EQ(rounds("5", 2), 3);
  EXPECT_EQ(rounds("5", 50), 1);
}

TEST(AveragingTraffic, MatchesTheFormulas) {
  for (const char* replicas : {"2", "3", "12"}) {
    const Recipe recipe =
        recipe_of({std::string("mesh.replicas=") + replicas, "run.evaluate_every=50"});
    const auto others = static_cast<double>(recipe.mesh.replicas - 1);
    const auto parameters = static_cast<double>(parameters_of(recipe));
    const AveragingTraffic traffic = averaging_traffic(recipe, kVocabulary);
    EXPECT_DOUBLE_EQ(traffic.allreduce_bytes, 2 * others * parameters * 4);
    EXPECT_DOUBLE_EQ(traffic.update_bytes, traffic.allreduce_bytes / 20);
    // Of 20 evaluations in 1,000 updates every second is of the mean; all but the last send bf16.
    EXPECT_EQ(traffic.evaluate_mean_every, 100);
    EXPECT_DOUBLE_EQ(traffic.evaluation_bytes, others * parameters * (9 * 2 + 4) / 1000);
    ASSERT_EQ(traffic.stages.size(), 2u);
    double sent = 0;
    double numbers = 0;
    for (const StageTraffic& stage : traffic.stages) {
      sent += stage.round_bytes * (others + 1);
      numbers += stage.numbers;
    }
    EXPECT_DOUBLE_EQ(sent, traffic.update_bytes);
    EXPECT_DOUBLE_EQ(numbers, parameters / 20);
  }
}

TEST(AveragingTraffic, FollowsWireIntervalAndMethod) {
  const auto share = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), "mesh.replicas=2");
    const AveragingTraffic traffic = averaging_traffic(recipe_of(sets), kVocabulary);
    return traffic.update_bytes / traffic.allreduce_bytes;
  };
  EXPECT_DOUBLE_EQ(share({"averaging.wire=bf16"}), 0.025);
  EXPECT_DOUBLE_EQ(share({"averaging.interval=10"}), 0.005);
  EXPECT_DOUBLE_EQ(share({"averaging.method=allreduce"}), 1);
  EXPECT_DOUBLE_EQ(share({"averaging.method=weights"}), 1);
  EXPECT_DOUBLE_EQ(share({"averaging.method=diloco"}), 0.02);
  EXPECT_NEAR(share({"averaging.wire=int8"}), 0.05 * 260 / 256 / 4, 2e-4);
  EXPECT_NEAR(share({"averaging.method=lowbit"}), kTernaryBits / 32, 1e-3);
  EXPECT_EQ(share({"averaging.method=none"}), 0);
}

TEST(AveragingTraffic, ARunWithoutEvaluationsHasOneAtItsEnd) {
  const Recipe recipe = recipe_of({"mesh.replicas=2", "run.evaluate_every=0", "run.updates=200"});
  EXPECT_DOUBLE_EQ(averaging_traffic(recipe, kVocabulary).evaluation_bytes,
                   static_cast<double>(parameters_of(recipe)) * 4 / 200);
}

int64_t mean_every(std::vector<std::string> sets) {
  sets.insert(sets.begin(), "mesh.replicas=2");
  return averaging_traffic(recipe_of(sets), kVocabulary).evaluate_mean_every;
}

TEST(EvaluateMeanEvery, IsARecipesOwnNumberOrAsOftenAsTrafficAllows) {
  // 1,000 updates, an evaluation after every hundredth: averaging sends 400 and 160 times the
  // bytes of a byte per weight, a copy 2 and the last one 4.
  EXPECT_EQ(mean_every({}), 100);
  EXPECT_EQ(mean_every({"averaging.method=lowbit"}), 1) << "every one is of the common model";
  EXPECT_EQ(mean_every({"averaging.method=diloco"}), 200);
  EXPECT_EQ(mean_every({"averaging.method=allreduce", "run.evaluate_every=1"}), 3);
  EXPECT_EQ(mean_every({"averaging.method=none"}), 1000) << "only at the end";
  EXPECT_EQ(mean_every({"run.evaluate_every=0"}), 1000);
  EXPECT_EQ(mean_every({"run.evaluate_every=10"}), 60);
  EXPECT_EQ(mean_every({"run.evaluate_every=10", "run.updates=100"}), 100);
  EXPECT_EQ(mean_every({"run.evaluate_mean_every=1"}), 1);
  EXPECT_EQ(mean_every({"run.evaluate_mean_every=30"}), 30);
  EXPECT_EQ(mean_every({"run.evaluate_mean_every=0"}), 1000);
}

TEST(EvaluateMeanEvery, KeepsCopiesToATenthOfAveraging) {
  const auto share = [](const std::string& method, const std::string& every,
                        const std::string& updates) {
    const Recipe recipe = recipe_of({"mesh.replicas=3", "averaging.method=" + method,
                                     "run.evaluate_every=" + every, "run.updates=" + updates});
    const AveragingTraffic traffic = averaging_traffic(recipe, kVocabulary);
    const bool only_last = traffic.evaluate_mean_every == recipe.run.updates;
    return only_last ? 0 : traffic.evaluation_bytes / traffic.update_bytes;
  };
  for (const char* method : {"sparse", "diloco", "weights", "allreduce"}) {
    for (const char* every : {"1", "7", "100"}) {
      for (const char* updates : {"200", "999", "1000", "20000"}) {
        EXPECT_LT(share(method, every, updates), 0.1 + 1e-9)
            << method << " " << every << " " << updates;
      }
    }
    EXPECT_GT(share(method, "1", "20000"), 0.05) << method << ": and as often as that allows";
  }
}

TEST(AveragingTraffic, ACommonModelIsEvaluatedWithoutCopies) {
  for (const char* every : {"0", "1", "100"}) {
    const Recipe recipe = recipe_of(
        {"mesh.replicas=3", "averaging.method=lowbit", std::string("run.evaluate_every=") + every});
    EXPECT_EQ(averaging_traffic(recipe, kVocabulary).evaluation_bytes, 0);
  }
}

TEST(AveragingTraffic, OneReplicaHasNone) {
  const AveragingTraffic traffic = averaging_traffic(recipe_of({}), kVocabulary);
  EXPECT_EQ(traffic.update_bytes + traffic.allreduce_bytes + traffic.evaluation_bytes, 0);
}

}  // namespace
}  // namespace leeway
