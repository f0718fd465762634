// The plan beside what real stages allocate.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "../../support/counted_memory.h"
#include "../../support/model_shapes.h"
#include "pipeline/memory_plan.h"

namespace leeway {
namespace {

constexpr int64_t kBatch = 4;

// Three layers for three stages, and longer rows.
ModelShape sized(ModelShape shape) {
  shape.layers = 3;
  shape.context = 64;
  shape.vocabulary = 500;
  return shape;
}

// Works as the schedule says; its neighbours' tensors are not counted as its own.
void run(const Schedule& schedule, bool flushes, const StageOptions& options, Stage& stage) {
  const ModelShape& shape = options.shape;
  const at::Tensor ids = at::zeros({kBatch, shape.context}, at::kLong);
  const at::Tensor activation =
      at::ones({kBatch, shape.context, shape.width}, at::TensorOptions(options.compute));
  Counts at;
  constexpr int64_t kUpdates = 5;
  while (at.updates < kUpdates) {
    if (schedule.update_due(at)) {
      stage.update(1, 1);
      ++at.updates;
    } else if (schedule.wants_forward(at, {flushes ? at.updates + 1 : kUpdates})) {
      const MicrobatchId m = {at.forwards};
      const int64_t delay = schedule.delay(m, {at.updates});
      const Ahead ahead = {.delay = delay, .guess = options.horizon > 0 ? delay : 0};
      const at::Tensor input = options.slice.embeds ? ids.clone() : activation.clone();
      if (options.slice.heads) {
        stage.forward_to_head(m, ahead, input, ids.clone());
      } else {
        stage.forward(m, ahead, input);
      }
      ++at.forwards;
    } else {
      const MicrobatchId m = {at.backwards};
      if (options.slice.heads) {
        stage.backward_from_loss(m);
      } else {
        stage.backward(m, activation.clone());
      }
      ++at.backwards;
    }
  }
}

void expect_planned(const PipelineShape& pipeline, const StageOptions& like) {
  std::vector<StageOptions> stages;
  for (const StageSlice& slice : cut_into_stages(like.shape, pipeline.stages)) {
    stages.push_back(like);
    stages.back().slice = slice;
  }
  const std::vector<StageMemory> plan =
      plan_memory(stages, pipeline,
                  {.microbatch_tokens = kBatch * like.shape.context, .run_microbatches = 1000});
  for (int64_t s = 0; s < pipeline.stages; ++s) {
    const StageOptions& options = stages[static_cast<size_t>(s)];
    const CountedMemory counted;
    Stage stage(options);
    run(Schedule(pipeline, {s}), pipeline.synchronous(), options, stage);
    // A stage alone has no messages, no samples and no checkpoints.
    StageMemory need = plan[static_cast<size_t>(s)];
    need.evaluation = 0;
    need.passing = 0;
    EXPECT_NEAR(need.total() / counted.peak(), 1, 0.1)
        << "stage " << s << " of " << pipeline.stages << ", " << options.compute << ", horizon "
        << options.horizon << ", recompute " << options.recompute
        << (options.shape.bias ? ", gpt2" : ", llama") << ": " << need.total() << " planned, "
        << counted.peak() << " needed";
  }
}

TEST(MemoryPeak, OfALastStageThatRecomputesIsInItsBackward) {
  at::set_num_threads(1);
  const ModelShape shape = sized(small_llama());
  Stage stage({.shape = shape, .slice = whole_model(shape), .update = {}, .recompute = true});
  const at::Tensor ids = at::zeros({kBatch, shape.context}, at::kLong);
  stage.forward_to_head({0}, {}, ids, ids);
  const CountedMemory counted;
  stage.forward_to_head({1}, {}, ids, ids);
  EXPECT_EQ(counted.peak(), 0) << "its forward makes nothing that the backward does not make again";
  stage.backward_from_loss({0});
  EXPECT_GT(counted.peak(), 0);
}

TEST(MemoryPeak, IsAsPlanned) {
  at::set_num_threads(1);  // what other threads allocate is not counted
  for (const ModelShape& shape : {sized(small_llama()), sized(small_gpt2())}) {
    const auto rule = shape.bias ? UpdateRule::kAdamW : UpdateRule::kMuon;
    StageOptions options = {.shape = shape, .slice = {}, .update = {.rule = rule}};
    expect_planned({.stages = 1, .update_every = 2}, options);
    const PipelineShape deep = {.stages = 3, .update_every = 2, .extra_per_hop = 1};
    expect_planned(deep, options);
    options.stash_on = StashPlace::kHost;
    expect_planned(deep, options);
    options.stash_on = StashPlace::kDevice;
    options.horizon = 0.5;
    expect_planned(deep, options);
    options.recompute = true;
    expect_planned(deep, options);
    expect_planned({.order = PipelineSchedule::kGpipe, .stages = 2, .update_every = 3}, options);
  }
}

}  // namespace
}  // namespace leeway
