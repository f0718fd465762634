// The host never stands still for a GPU that trains: LibTorch is told to fail at every call that
// waits for the device, while updates are made. (A worker's own waits, for the pieces of work that
// it is ahead, are events, which LibTorch does not count.)
#include <ATen/ATen.h>

#include "run_on_device.h"

#if LEEWAY_CUDA
#include <c10/cuda/CUDAFunctions.h>

namespace leeway {
namespace {

void fail_on_stalls(bool yes) {
  c10::cuda::warning_state().set_sync_debug_mode(yes ? c10::cuda::SyncDebugMode::L_ERROR
                                                     : c10::cuda::SyncDebugMode::L_DISABLED);
}

class NoStalls : public TrainingOnDevice {
 protected:
  // Between the 10th update and the 40th of 50.
  Trained train_watched(std::vector<std::string> sets) {
    for (const char* const more : {"run.updates=50", "run.precision=bf16"}) sets.push_back(more);
    sets.push_back(device());
    updated_ = [](const UpdateReport& report) {
      if (report.update == 10) fail_on_stalls(true);
      if (report.update == 40) fail_on_stalls(false);
    };
    const Trained trained = train(std::move(sets));
    fail_on_stalls(false);
    return trained;
  }
};

TEST_F(NoStalls, OneWorker) {
  for (const char* const architecture : {"llama", "gpt2"}) {
    for (const char* const optimizer : {"adamw", "muon"}) {
      SCOPED_TRACE(fmt::format("{}, {}", architecture, optimizer));
      const Trained trained = train_watched({fmt::format("model.architecture={}", architecture),
                                             fmt::format("optimizer.name={}", optimizer)});
      EXPECT_EQ(trained.losses.size(), 50U);
    }
  }
}

TEST_F(NoStalls, AMesh) {
  for (const char* const method : {"sparse", "lowbit", "allreduce"}) {
    SCOPED_TRACE(method);
    const Trained trained = train_watched({"mesh.stages=4", "mesh.replicas=2", "data.batch=8",
                                           fmt::format("averaging.method={}", method)});
    EXPECT_EQ(trained.losses.size(), 50U);
  }
}

TEST_F(NoStalls, AStashOnTheHost) {
  const Trained trained = train_watched({"mesh.stages=4", "data.batch=8", "pipeline.update_every=1",
                                         "pipeline.extra_per_hop=1", "pipeline.stash_on=host"});
  EXPECT_EQ(trained.losses.size(), 50U);
}

TEST_F(NoStalls, ASynchronousPipeline) {
  const Trained trained = train_watched({"mesh.stages=2", "pipeline.schedule=1f1b"});
  EXPECT_EQ(trained.losses.size(), 50U);
}

// The check itself: something that waits is noticed.
TEST_F(NoStalls, AWaitIsNoticed) {
  const at::Tensor one = at::ones({1}, at::TensorOptions().device(test_device()));
  fail_on_stalls(true);
  EXPECT_THROW(one.item<float>(), c10::Error);
  fail_on_stalls(false);
}

}  // namespace
}  // namespace leeway
#endif
