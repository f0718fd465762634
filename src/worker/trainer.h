// One replica in one thread: all stages, one microbatch after the other, a flush per update. The
// simplest driver of Stage, and the numbers that every other one is measured against.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "config/recipe.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "optim/schedule.h"
#include "pipeline/stage.h"
#include "worker/evaluation.h"

namespace leeway {

struct UpdateReport {
  int64_t update = 0;  // updates done, this one included
  double loss = 0;     // mean over the update's microbatches
  double gradient_norm = 0;
  double rate_factor = 0;
  bool applied = false;  // false: loss or gradients were not finite, and the weights stand
};

class Trainer {
 public:
  Trainer(const Recipe& recipe, const TokenFile& train, int64_t vocabulary);

  // The gradients of update_every microbatches, clipped by their global norm, and one step.
  UpdateReport next_update();

  // nullopt: `progress` said to stop.
  std::optional<Evaluation> validate(const TokenFile& valid,
                                     const EvaluationProgress& progress) const;

  int64_t updates_done() const { return stages_.front()->updates_done().value; }
  int64_t tokens_done() const;
  int64_t parameters() const;
  const ModelShape& shape() const { return stages_.front()->model().shape(); }

  // The whole model's flat buffers: stages one after the other are the uncut layout.
  at::Tensor weights() const;
  Optimizer::State optimizer_state() const;
  // Buffers and weights on the CPU, in the order of optimizer_state(); sizes are the caller's care.
  Status restore(const at::Tensor& weights, const Optimizer::State& state);

 private:
  double run_microbatch(MicrobatchId m);
  at::Tensor logits(const at::Tensor& ids) const;

  Recipe recipe_;
  const TokenFile& train_;
  int64_t microbatches_;  // per update
  SamplerOptions sampler_;
  ScheduleOptions schedule_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace leeway
