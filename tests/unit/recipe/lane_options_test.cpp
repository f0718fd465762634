#include "recipe/lane_options.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

constexpr int64_t kVocabulary = 257;

// Two stages; the second one has no embedding, so it is smaller.
Recipe recipe_of(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"model.layers=3", "model.width=512", "model.heads=8", "mesh.stages=2",
                             "pipeline.update_every=2"});
  auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? loaded->recipe : Recipe{};
}

std::string replicas_set(int64_t replicas) { return "mesh.replicas=" + std::to_string(replicas); }

// By stage, as the workers count them.
std::vector<int64_t> chunks_of(const Recipe& recipe) {
  const LanePlan plan = lane_plans(recipe, kVocabulary).front();
  std::vector<int64_t> chunks;
  for (int64_t s = 0; s < recipe.mesh.stages; ++s) chunks.push_back(plan.chunks({s}));
  return chunks;
}

TEST(LaneOptions, WorkersAndTheirArithmeticHaveTheSameChunks) {
  for (const char* method : {"lowbit", "sparse", "allreduce", "diloco"}) {
    for (const int64_t replicas : {2, 8, 9, 24, 64}) {
      const Recipe recipe =
          recipe_of({replicas_set(replicas), std::string("averaging.method=") + method});
      const std::vector<int64_t> chunks = chunks_of(recipe);
      const auto stages = stage_options(recipe, kVocabulary, StagesFor::kPlan);
      for (size_t s = 0; s < stages.size(); ++s) {
        const LaneOptions main = lane_options(recipe, stages[s], {static_cast<int64_t>(s)}).front();
        EXPECT_EQ(main.chunks, chunks[s]) << method << " " << replicas;
      }
    }
  }
}

// A recipe for several replicas must also run with one, which has microbatches of another size.
TEST(LaneOptions, OneReplicaDoesNotMindALagOfOthers) {
  const Recipe recipe = recipe_of({"averaging.merge=fixed_lag", "averaging.lag=0.3"});
  EXPECT_TRUE(lane_plans(recipe, kVocabulary).empty());
  EXPECT_FALSE(evaluation_lane(recipe, kVocabulary).lag_backwards);
}

TEST(LaneOptions, AFleetHasAnOwnerPerReplicaWhileChunksAreAbove64KiB) {
  for (const char* method : {"lowbit", "sparse", "allreduce"}) {
    for (const int64_t replicas : {16, 64, 256}) {
      const Recipe recipe =
          recipe_of({replicas_set(replicas), std::string("averaging.method=") + method});
      const LanePlan plan = lane_plans(recipe, kVocabulary).front();
      for (const StageId stage : {StageId{0}, StageId{1}}) {
        const int64_t chunks = plan.chunks(stage);
        EXPECT_GE(chunks, 8);
        EXPECT_LE(chunks, replicas);
        // Runs are not divided, so chunks are not quite equal.
        const ChunkSizes& sizes = plan.sizes[static_cast<size_t>(stage.value)];
        const auto bytes = static_cast<double>(sizes.bytes_max(0, chunks));
        const double least = chunks > 8 ? 0.98 * 64 * 1024 : 0;
        EXPECT_GT(bytes, least) << method << " " << replicas;
        const double most = chunks < replicas ? 1.15 * 64 * 1024 : 1e12;
        EXPECT_LT(bytes, most) << method << " " << replicas;
      }
    }
  }
}

TEST(LaneOptions, TheSmallerStageHasFewerOwners) {
  const std::vector<int64_t> chunks =
      chunks_of(recipe_of({replicas_set(64), "averaging.method=lowbit"}));
  EXPECT_LT(std::min(chunks[0], chunks[1]), std::max(chunks[0], chunks[1]));
}

TEST(LaneOptions, UpToEightReplicasHaveAnOwnerEachWhateverTheModel) {
  for (const int64_t replicas : {2, 3, 8}) {
    const Recipe small = recipe_of({replicas_set(replicas), "model.width=32", "model.heads=2"});
    EXPECT_EQ(chunks_of(small), std::vector<int64_t>(2, replicas));
  }
  const Recipe many = recipe_of({replicas_set(20), "model.width=32", "model.heads=2"});
  EXPECT_EQ(chunks_of(many), std::vector<int64_t>(2, 8));
}

}  // namespace
}  // namespace leeway
