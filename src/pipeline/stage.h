// One stage of one replica: weights, gradients, optimizer state and what its microbatches in flight
// have saved. Forward, backward and update are the only three things it does; when to do which is
// somebody else's decision.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>

#include "base/ids.h"
#include "model/stage_model.h"
#include "optim/optimizer.h"
#include "pipeline/versions.h"

namespace leeway {

struct StageOptions {
  ModelShape shape;
  StageSlice slice;
  UpdateOptions update;
  at::Device device = at::kCPU;
  at::ScalarType master = at::kFloat;   // weights, gradients, moments: fp32, in tests fp64
  at::ScalarType compute = at::kFloat;  // versions and activations: fp32, bf16, in tests fp64
  uint64_t seed = 0;                    // of the initial weights
};

class Stage {
 public:
  explicit Stage(const StageOptions& options);
  Stage(const Stage&) = delete;  // versions point at the model inside
  Stage& operator=(const Stage&) = delete;

  // Uses the newest version and keeps hold of it until this microbatch's backward.
  at::Tensor forward(MicrobatchId m, const at::Tensor& input);
  // Last stage: goes on to the mean loss over `targets` [batch, time], a scalar on the device.
  at::Tensor forward_to_loss(MicrobatchId m, const at::Tensor& input, const at::Tensor& targets);

  // Adds to the gradients; returns the input's gradient (undefined for the first stage).
  at::Tensor backward(MicrobatchId m, const at::Tensor& dy);
  // Last stage: starts from scale * loss; 1 / update_every makes the update's gradient a mean.
  at::Tensor backward_from_loss(MicrobatchId m, double scale);

  double gradient_squared_norm() const;
  // One optimizer step, publishes the next version, clears the gradients.
  void update(double rate_factor, double gradient_scale);

  // A forward that leaves no trace, on the newest version.
  at::Tensor evaluate(const at::Tensor& input) const;

  // Puts weights into the master buffer (a checkpoint's) and publishes them.
  void load_weights(const at::Tensor& flat);

  const StageModel& model() const { return model_; }
  const at::Tensor& weights() const { return weights_; }  // flat master copy
  const at::Tensor& gradients() const { return gradients_; }
  Optimizer& optimizer() { return optimizer_; }
  UpdateId updates_done() const { return {optimizer_.updates_done()}; }
  int64_t in_flight_count() const { return static_cast<int64_t>(in_flight_.size()); }
  // Compute copies in memory: one where every update finds nothing in flight.
  int64_t version_count() const { return versions_.allocated_count(); }

 private:
  struct InFlight {
    std::shared_ptr<const Version> version;
    StageSaved saved;
    LossSaved loss;
    at::Tensor targets;
  };
  InFlight take(MicrobatchId m);
  void publish_weights();

  StageOptions options_;
  StageModel model_;
  at::Tensor weights_;
  at::Tensor gradients_;
  StageViews gradient_views_;
  Optimizer optimizer_;
  Versions versions_;
  std::map<MicrobatchId, InFlight> in_flight_;
};

}  // namespace leeway
