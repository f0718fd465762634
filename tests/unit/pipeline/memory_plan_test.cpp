#include "pipeline/memory_plan.h"

#include <gtest/gtest.h>

#include "middle_stage.h"
#include "model/saved_bytes.h"

namespace leeway {
namespace {

class Plans : public testing::Test {
 protected:
  std::vector<StageMemory> plan() const { return plan_memory(cut(3, like_), shape_, load_); }

  StageOptions like_ = middle_stage();
  PipelineShape shape_ = {.stages = 3, .update_every = 5, .extra_per_hop = 1};
  MemoryLoad load_ = {.microbatch_tokens = 64, .run_microbatches = 1000};
};

TEST_F(Plans, ActivationsAreThoseOfAllMicrobatchesInFlight) {
  const auto stages = cut(3, like_);
  const MicrobatchSize size = {.tokens = 64, .number_bytes = 4};
  const auto whole = [&](size_t s) {
    return saved_bytes(stages[s].shape, stages[s].slice, size) +
           head_bytes(stages[s].shape, stages[s].slice, size);
  };
  EXPECT_EQ(plan()[0].in_flight, 5);
  EXPECT_EQ(plan()[0].activations, 5 * whole(0));
  EXPECT_EQ(plan()[2].activations, whole(2));
  shape_.order = PipelineSchedule::kGpipe;  // all of an update, on every stage
  EXPECT_EQ(plan()[2].activations, 5 * whole(2));
}

TEST_F(Plans, RecomputeKeepsInputsAndWorksOnOneFullMicrobatch) {
  const auto stages = cut(3, like_);
  const MicrobatchSize size = {.tokens = 64, .number_bytes = 4};
  const double whole = saved_bytes(stages[1].shape, stages[1].slice, size);
  like_.recompute = true;
  const double input = 64 * 8 * 4;
  EXPECT_EQ(plan()[1].activations, 3 * input);
  EXPECT_EQ(plan()[1].working,
            passing_bytes(stages[1].shape, stages[1].slice, size) + whole - input);
}

TEST_F(Plans, AShortRunNeverFillsADeepPipeline) {
  load_.run_microbatches = 2;
  EXPECT_EQ(plan()[0].in_flight, 2);
}

TEST_F(Plans, Bf16HalvesCopiesAndKeepsMasters) {
  const StageMemory full = plan()[0];
  like_.compute = at::kBFloat16;
  const StageMemory half = plan()[0];
  EXPECT_EQ(half.weights, full.weights);
  EXPECT_EQ(half.optimizer, full.optimizer);
  EXPECT_EQ(half.versions, full.versions / 2);
  EXPECT_LT(half.activations, full.activations);
}

TEST_F(Plans, EvaluationHoldsCopies) {
  EXPECT_EQ(plan()[0].evaluation, 0);
  load_.evaluations_pending = 2;
  EXPECT_EQ(plan()[0].evaluation, 2 * plan()[0].weights);
}

TEST_F(Plans, MuonHasScratchForItsMatrices) {
  const double adamw = plan()[1].optimizer;
  like_.update.rule = UpdateRule::kMuon;
  // The largest batch: two 12 x 8 matrices (gate and up), and four 8 x 8 squares (q, k, v, out).
  const double batch = 4 * 8 * 8;
  EXPECT_EQ(plan()[1].optimizer - adamw, 4 * (2 * batch + 2 * batch));
}

TEST_F(Plans, AGpuPadsTheHead) {
  like_.compute = at::kBFloat16;
  const StageMemory cpu = plan()[2];
  like_.device = at::kCUDA;
  const StageMemory gpu = plan()[2];
  const double padding = (128 - 11) * 8;
  EXPECT_EQ(gpu.weights, cpu.weights);
  EXPECT_EQ(gpu.gradients, cpu.gradients + 4 * padding);
  EXPECT_EQ(gpu.versions, cpu.versions + 2 * padding);
  // Attention's heads of 4 are padded to 8. Logits are not kept.
  EXPECT_EQ(gpu.activations, cpu.activations + 64 * (2 * 2 * 8));
  EXPECT_GT(gpu.passing, 32e6) << "cuBLAS's own";
}

TEST_F(Plans, AGpuOrthogonalizesInBf16) {
  like_.update.rule = UpdateRule::kMuon;
  const StageMemory cpu = plan()[1];
  like_.device = at::kCUDA;
  const double moments = 2 * cpu.weights;
  EXPECT_EQ(plan()[1].optimizer - moments, (cpu.optimizer - moments) / 2);
}

TEST_F(Plans, TheLastEvaluationIsWhenNothingIsInFlight) {
  like_.device = at::kCUDA;  // saving takes none of its memory
  const double cublas = 32 * 1024 * 1024;
  load_.replicas = 3;
  load_.microbatch_tokens = 1;  // the copies of three replicas, and their mean, are more
  const StageMemory few = plan()[1];
  EXPECT_EQ(few.evaluation + few.passing - cublas + few.activations + few.working,
            (4 + 1) * few.weights);
  load_.microbatch_tokens = 10'000;  // activations are more
  EXPECT_EQ(plan()[1].evaluation, 0);
}

TEST_F(Plans, ReplicasOfADeviceShareAnswers) {
  load_.averaging.assign(3, {.buffers = 100, .flights = 10, .answers = 1000});
  EXPECT_EQ(plan()[0].averaging, 1110);
  EXPECT_EQ(together(all_workers(plan(), 2)).averaging, 3 * (2 * 110 + 1000));
}

TEST_F(Plans, NotAllWorkersOfADeviceMustComputeAtOnce) {
  const auto stages = plan();
  double most = 0;
  for (const StageMemory& stage : stages) most = std::max(most, stage.working);
  EXPECT_EQ(together(stages, 1).working, most);
  EXPECT_EQ(together(stages, 3).total(), together(stages).total());
}

TEST_F(Plans, TotalsAddUp) {
  const auto stages = plan();
  const StageMemory all = together(stages);
  EXPECT_DOUBLE_EQ(all.total(), stages[0].total() + stages[1].total() + stages[2].total());
  EXPECT_EQ(all.parameters,
            parameter_count(slice_layout(small_shape(), whole_model(small_shape()))));
}

TEST_F(Plans, ATypoInTheRecipeDoesNotOverflow) {
  like_.shape.width = 65'536;
  like_.shape.hidden = 1'000'000;
  load_.microbatch_tokens = 1'000'000'000'000;
  EXPECT_GT(together(plan()).total(), 1e19);
}

}  // namespace
}  // namespace leeway
