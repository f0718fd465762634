#include "cli/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace leeway::cli {
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
  const Status status = check_memory(recipe, planned_memory(recipe, 257), available);
  if (status.ok()) return "fits";
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  return status.error().message;
}

TEST(CheckMemory, LetsThroughWhatFits) {
  EXPECT_TRUE(check_memory(recipe_of({}), 257).ok());
  const double total = together(planned_memory(recipe_of({}), 257)).total();
  EXPECT_EQ(refusal_of({}, total), "fits");
  EXPECT_THAT(refusal_of({}, total - 1), HasSubstr("this run needs about"));
}

TEST(CheckMemory, NamesTheTotalWhatThereIsAndWhatToChange) {
  const std::string deep =
      refusal_of({"mesh.stages=4", "pipeline.extra_per_hop=50", "pipeline.update_every=1"}, 1e9);
  EXPECT_THAT(deep, HasSubstr(" GB of memory, "));
  EXPECT_THAT(deep, HasSubstr(" GB of it for activations, and this machine has 1.0 GB: lower "
                              "pipeline.extra_per_hop (50), set pipeline.recompute = true, lower "
                              "data.batch (16) or make the model smaller"));
}

TEST(CheckMemory, AdvisesOnlyWhatIsLeftToDo) {
  const std::string message =
      refusal_of({"pipeline.recompute=true", "data.batch=4", "pipeline.update_every=4"}, 1e6);
  EXPECT_THAT(message, HasSubstr("and this machine has 1.0 MB: make the model smaller"));
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
}

TEST(CheckMemory, LeavesGpusAlone) {
  EXPECT_TRUE(check_memory(recipe_of({"run.device=cuda", "data.batch=1000000"}), 257).ok());
  EXPECT_FALSE(check_memory(recipe_of({"data.batch=1000000", "model.context=1000000"}), 257).ok());
}

TEST(ShownBytes, OfAnySize) {
  EXPECT_EQ(shown_bytes(0), "0 bytes");
  EXPECT_EQ(shown_bytes(1.5e9), "1.5 GB");
  EXPECT_EQ(shown_bytes(1e30), "more than 1,000,000 TB");
}

}  // namespace
}  // namespace leeway::cli
