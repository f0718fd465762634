// One stage of one replica: weights, gradients, optimizer state and what its microbatches in flight
// have saved. It runs a forward, a backward or an update; the caller decides when.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "config/choices.h"
#include "model/stage_model.h"
#include "optim/optimizer.h"
#include "pipeline/graphed_microbatches.h"
#include "pipeline/prediction.h"
#include "pipeline/versions.h"

namespace leeway {

struct StageOptions {
  ModelShape shape;
  StageSlice slice;
  UpdateOptions update;
  at::Device device = at::kCPU;
  at::ScalarType master = at::kFloat;   // weights, gradients, moments: fp32, in tests fp64
  at::ScalarType compute = at::kFloat;  // versions and activations: fp32, bf16, in tests fp64
  uint64_t seed = 0;                    // for the initial weights
  double horizon = 0;      // forwards run at w + horizon * delay * (the last update); 0: at w
  bool recompute = false;  // keep only inputs; the backward repeats the forward
  bool stash = true;       // false, with recompute: repeat it on the newest weights
  // kHost: the device has the version that forwards use and that of the next backward; the others
  // wait in host memory, and backwards must come in the order of forwards.
  StashPlace stash_on = StashPlace::kDevice;
  // Microbatches are graphs (graphed_microbatches.h); needs a stash on the device. Same bits.
  bool graphs = false;
};

// Which weights a forward uses.
struct Ahead {
  int64_t delay = 0;  // updates between now and the one that its gradient goes into
  int64_t guess = 0;  // with a horizon: `delay`; `tentative`: as given to make_guess(); 0: w
};

class Stage {
 public:
  explicit Stage(const StageOptions& options);
  Stage(const Stage&) = delete;  // versions point at the model inside
  Stage& operator=(const Stage&) = delete;

  // Uses the newest weights, or a guess from them, and holds that version until the backward.
  at::Tensor forward(MicrobatchId m, const Ahead& ahead, const at::Tensor& input);
  // Last stage: the backward will make the mean loss over `targets` [batch, time], and the gradient
  // of scale * loss; 1 / update_every makes the update's gradient a mean.
  void forward_to_head(MicrobatchId m, const Ahead& ahead, const at::Tensor& input,
                       const at::Tensor& targets, double scale = 1);

  // Guess number `guess` (from 1) at the coming weights: what an update with the gradients so far
  // would produce. Valid until the next update.
  bool has_guess(int64_t guess) const { return versions_.newest(guess) != nullptr; }
  void make_guess(int64_t guess, double rate_factor, double gradient_scale,
                  const at::Tensor& gate = {});

  // Adds to the gradients; returns the input's gradient (undefined for the first stage).
  at::Tensor backward(MicrobatchId m, const at::Tensor& dy);
  // Last stage: the head, the loss, and back.
  MicrobatchGradient backward_from_loss(MicrobatchId m);

  // Takes one optimizer step, publishes the next version, clears the gradients. `gate`
  // (kernels/gate.h) also scales the gradients, and may keep the weights as they are.
  void update(double rate_factor, double gradient_scale, const at::Tensor& gate = {});

  // Between two pieces of work others may write into the weights too. They must write the same into
  // this compute copy of the newest weights. Undefined: there is none that no forward has used. The
  // coming forwards make their own, and guesses from the new weights.
  at::Tensor writable_copy();

  // A version of weights other than the stage's own, for evaluate().
  std::shared_ptr<const Version> hold_copy(const at::Tensor& flat);
  // A forward that saves nothing; the last stage goes on to the mean loss.
  at::Tensor evaluate(const Version& version, const at::Tensor& input) const;
  at::Tensor evaluate_loss(const Version& version, const at::Tensor& input,
                           const at::Tensor& targets) const;

  // Samples the next late forward: how far off its weights turn out to be.
  void watch_prediction() { watch_wanted_ = true; }
  std::optional<PredictionSample> take_prediction();

  // Drops what is in flight, and goes on as after `updates` updates.
  void restart(int64_t updates);

  // Loads weights (from a checkpoint) into the master buffer and publishes them.
  void load_weights(const at::Tensor& flat);

  const StageModel& model() const { return model_; }
  const at::Tensor& weights() const { return weights_; }  // flat master copy
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& last_update() const { return last_update_; }  // undefined without horizon
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  UpdateId updates_done() const { return {optimizer_.updates_done()}; }
  int64_t slot_count() const { return graphs_ ? graphs_->slot_count() : 0; }
  int64_t in_flight_count() const { return static_cast<int64_t>(in_flight_.size()); }
  // Most versions at once: those of the newest weights, and those that microbatches in flight hold.
  int64_t versions_peak() const { return versions_peak_; }
  // Compute copies in the device's memory, including those of a pending evaluation.
  int64_t version_count() const { return versions_.allocated_count(); }
  // Those in the host's, with a stash there.
  int64_t host_version_count() const { return versions_.allocated_on_host(); }
  int64_t version_bytes() const { return versions_.version_bytes(); }

 private:
  struct InFlight {
    std::shared_ptr<const Version> version;  // null without a stash
    Microbatch microbatch;                   // unused with graphs
  };
  // The targets are undefined but at the last stage.
  at::Tensor go_forward(MicrobatchId m, const Ahead& ahead, Microbatch microbatch);
  MicrobatchGradient go_backward(MicrobatchId m, const at::Tensor& dy);
  at::Tensor forward_pass(const Version& version, Microbatch& microbatch, bool keeps) const;
  at::Tensor backward_pass(const Version& version, Microbatch& microbatch, const at::Tensor& dy);
  std::shared_ptr<const Version> newest(int64_t guess);
  std::shared_ptr<const Version> make_version(int64_t guess);
  // A buffer for a version that the coming forwards use.
  std::shared_ptr<Version> take_free(UpdateId update, int64_t guess);
  // To be called when no forward uses the newest versions any more.
  void retire();
  // What the next backward uses is on the device.
  void bring_back();
  void count_versions();

  StageOptions options_;
  StageModel model_;
  at::Tensor weights_;
  at::Tensor gradients_;
  at::Tensor last_update_;
  StageViews gradient_views_;
  Optimizer optimizer_;
  Versions versions_;
  std::optional<GraphedMicrobatches> graphs_;
  std::map<MicrobatchId, InFlight> in_flight_;
  int64_t versions_peak_ = 1;
  bool watch_wanted_ = false;
  PredictionProbe probe_;
  std::optional<PredictionSample> prediction_;
};

}  // namespace leeway
