// The plan of a recipe beside what its run allocates: in the simulator, which has one thread.
#include <gtest/gtest.h>

#include "../../support/counted_memory.h"
#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"
#include "recipe/mesh_report.h"
#include "recipe/planned_memory.h"
#include "run/train.h"

namespace leeway {
namespace {

class RunMemory : public testing::Test {
 protected:
  RunMemory() { write_small_text(place_ / "text"); }

  void expect_planned(const std::vector<std::string>& more) {
    std::vector<std::string> sets = {
        "run.driver=sim",          "run.updates=8",        "model.layers=4", "model.width=64",
        "model.heads=4",           "model.context=32",     "data.batch=32",  "mesh.stages=4",
        "pipeline.update_every=4", "data.valid_share=0.05"};
    sets.insert(sets.end(), more.begin(), more.end());
    const auto loaded = small_recipe(place_ / "text", sets);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Recipe& recipe = loaded->recipe;
    const CountedMemory counted;
    const auto summary = train(*loaded, {.folder = place_ / std::to_string(++runs_)});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const double planned = memory_of_all(recipe, planned_memory(recipe, 257)).total();
    EXPECT_NEAR(planned / counted.peak(), 1, 0.1)
        << planned << " planned, " << counted.peak() << " needed: " << testing::PrintToString(more)
        << "\n"
        << memory_table(recipe, planned_memory(recipe, 257));
  }

  TemporaryFolder place_;
  int runs_ = 0;
};

TEST_F(RunMemory, OfAPipelineIsAsPlanned) {
  expect_planned({"mesh.replicas=1", "mesh.stages=1"});
  expect_planned({"mesh.replicas=1"});
  expect_planned({"mesh.replicas=1", "pipeline.recompute=true"});
  expect_planned({"mesh.replicas=1", "model.architecture=gpt2", "optimizer.name=adamw"});
}

TEST_F(RunMemory, OfReplicasIsAsPlanned) {
  for (const char* const method : {"sparse", "lowbit", "allreduce"}) {
    expect_planned({"mesh.replicas=2", std::string("averaging.method=") + method});
  }
}

}  // namespace
}  // namespace leeway
