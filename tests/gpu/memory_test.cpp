// The plan of a run's memory beside the peak that LibTorch's allocator has seen.
#include <ATen/DeviceAccelerator.h>

#include <string>
#include <vector>

#if LEEWAY_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#endif

#include "recipe/mesh_report.h"
#include "recipe/planned_memory.h"
#include "run_on_device.h"

namespace leeway {
namespace {

constexpr int64_t kVocabulary = 257;  // of the bytes tokenizer

class MemoryOnDevice : public TrainingOnDevice {
 protected:
  void SetUp() override {
    TrainingOnDevice::SetUp();
    if (test_device() == "cpu") GTEST_SKIP() << "tests/unit/run has the CPU's";
  }

  void expect_planned(std::vector<std::string> sets) {
    const std::vector<std::string> size = {"run.updates=20",          "run.precision=bf16",
                                           "model.layers=8",          "model.width=768",
                                           "model.heads=12",          "model.context=512",
                                           "pipeline.update_every=8", "data.batch=64",
                                           "run.log=\"updates\"",     "run.device=" + test_device(),
                                           "pipeline.graphs=false"};
    sets.insert(sets.begin(), size.begin(), size.end());
    auto with_data = sets;
    with_data.push_back("data.train=x");
    const auto loaded = parse_recipe(kRecipe, "a test", with_data);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Recipe& recipe = loaded->recipe;
    const std::vector<StageMemory> plan = planned_memory(recipe, kVocabulary);
    const double planned = memory_of_all(recipe, plan).total();

    free_what_is_left();
    const auto before = at::accelerator::getDeviceStats(0);
    at::accelerator::resetPeakStats(0);
    train(sets);
    const auto stats = at::accelerator::getDeviceStats(0);
    const auto peak = [&](auto kind) {
      return static_cast<double>((stats.*kind)[kAll].peak - (before.*kind)[kAll].current);
    };
    // What graphs have for themselves is reserved, and allocated only while they are made.
    const double needed = recipe.pipeline.graphs
                              ? peak(&c10::CachingDeviceAllocator::DeviceStats::reserved_bytes)
                              : peak(&c10::CachingDeviceAllocator::DeviceStats::allocated_bytes);
    EXPECT_NEAR(planned / needed, 1, 0.1)
        << planned << " planned, " << needed << " needed, " << stats.requested_bytes[kAll].peak
        << " requested: " << testing::PrintToString(sets) << "\n"
        << memory_table(recipe, plan);
  }

 private:
  static constexpr size_t kAll = 0;  // of the kinds of statistics: the sum

  // cuBLAS keeps what streams of earlier runs had.
  static void free_what_is_left() {
#if LEEWAY_CUDA
    at::cuda::clearCublasWorkspaces();
#endif
    at::accelerator::emptyCache();
  }
};

TEST_F(MemoryOnDevice, OneStageIsAsPlanned) {
  expect_planned({"optimizer.name=adamw"});
  expect_planned({"optimizer.name=muon", "model.architecture=gpt2"});
  expect_planned({"pipeline.recompute=true"});
  expect_planned({"run.precision=fp32", "data.batch=32"});
}

TEST_F(MemoryOnDevice, APipelineIsAsPlanned) {
  for (const char* const architecture : {"model.architecture=llama", "model.architecture=gpt2"}) {
    expect_planned({"mesh.stages=4", architecture});
    expect_planned({"mesh.stages=4", architecture, "pipeline.recompute=true"});
  }
  expect_planned({"mesh.stages=4", "pipeline.lookahead=predict", "optimizer.name=adamw"});
  // Each stage has up to ten versions, two of them on the GPU.
  expect_planned({"mesh.stages=4", "pipeline.extra_per_hop=2", "pipeline.update_every=1",
                  "data.batch=8", "pipeline.stash_on=host"});
}

TEST_F(MemoryOnDevice, GraphsAreAsPlanned) {
  const std::string graphs = "pipeline.graphs=true";
  expect_planned({graphs, "optimizer.name=adamw"});
  expect_planned({graphs, "optimizer.name=adamw", "run.evaluate_every=5"});
  expect_planned({graphs, "mesh.stages=4", "model.architecture=gpt2"});
  expect_planned({graphs, "mesh.stages=4", "mesh.replicas=2", "averaging.method=lowbit",
                  "averaging.merge=fixed_lag", "averaging.lag=2"});
}

TEST_F(MemoryOnDevice, ReplicasAreAsPlanned) {
  for (const char* const method : {"sparse", "lowbit"}) {
    expect_planned({"mesh.stages=4", "mesh.replicas=2", std::string("averaging.method=") + method,
                    "averaging.merge=fixed_lag", "averaging.lag=2"});
  }
}

}  // namespace
}  // namespace leeway
